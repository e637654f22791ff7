"""Content negotiation: which form of an answer a client wants, and reading bodies in the format it sent.

Answers are JSON, or protobuf where a client prefers that and the kind has a form in it, which custom resources do not
have. Bodies may also be YAML, which is read without trust and as Kubernetes reads it (dates and numbers in base 60 are
plain strings).
"""

from typing import Any, Literal

import msgspec
import yaml

from berth.api import repetitions
from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs
from berth_cluster.apimachinery import protobuf
from berth_cluster.apimachinery.errors import StoreError, bad_request
from berth_cluster.apimachinery.reason import refuse_unreasonable
from berth_cluster.storage.store import own

FormName = Literal["object", "Table", "PartialObjectMetadata", "protobuf", "PartialObjectMetadata in protobuf"]

PROTOBUF = protobuf.MEDIA_TYPE
_JSON_TYPES = ("application/json", "application/*", "*/*", "", "application/yaml")
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def wanted_form(accept: str, *, has_protobuf: bool = True) -> FormName:
    """The first form in an Accept header that this server can give; of metadata there is always one in protobuf."""
    if not accept or accept == "application/json":
        return "object"
    for choice in accept.split(","):
        media_type, parameters = _parse(choice)
        form, is_protobuf = parameters.get("as"), media_type == PROTOBUF
        if media_type not in _JSON_TYPES and not is_protobuf:
            continue
        if form is None and (has_protobuf or not is_protobuf):
            return "protobuf" if is_protobuf else "object"
        if form == "Table" and parameters.get("v") == "v1" and not is_protobuf:
            return "Table"
        if form in ("PartialObjectMetadata", "PartialObjectMetadataList") and parameters.get("v") == "v1":
            return "PartialObjectMetadata in protobuf" if is_protobuf else "PartialObjectMetadata"
    raise not_acceptable()


def not_acceptable() -> StoreError:
    """What is asked for in a form that there is not of it."""
    why = f"only the following media types are accepted: application/json, {PROTOBUF}"
    return StoreError(406, "NotAcceptable", why)


def _parse(choice: str) -> tuple[str, dict[str, str]]:
    media_type, *rest = (part.strip() for part in choice.split(";"))
    return media_type, dict(part.split("=", 1) for part in rest if "=" in part)


def decode_body(body: bytes, content_type: str, what: str) -> Any:
    """The body as plain JSON values, and not too many of them; `what` names in messages what was expected."""
    decoded = _decoded(body, content_type, what)
    refuse_unreasonable(decoded, f"{what}: the body")
    return decoded


def _decoded(body: bytes, content_type: str, what: str) -> Any:
    media_type = content_type.partition(";")[0].strip()
    try:
        if media_type == PROTOBUF:
            return own(protobuf.decode(body))
        if media_type in ("application/yaml", "text/yaml", "application/apply-patch+yaml"):
            loaded = load_yaml(body)  # whose aliases share what they stand for
            return own(loaded) if isinstance(loaded, dict) else loaded
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError, UnreasonableYAML) as error:
        raise bad_request(f"{what}: the body cannot be read as {media_type or 'JSON'}: {error}") from None
    except RecursionError:
        raise bad_request(f"{what}: the body is nested too deeply") from None


def load_yaml(body: bytes) -> Any:
    """The body as plain values; raises `yaml.YAMLError` or `UnreasonableYAML`."""
    refuse_bombs(body)
    try:
        return yaml.load(body, Loader=_Loader)
    except ValueError as error:  # a scalar that is not what its tag says, or a number of thousands of digits
        raise UnreasonableYAML(f"it holds a value that cannot be read: {error}") from None


def repeated_keys(body: bytes) -> list[str]:
    """What is to be said of keys that occur twice in one mapping of a YAML body, which could be read."""
    keys = repetitions.repeated_keys(yaml.compose(body, Loader=_Loader))
    return [f'line {key.start_mark.line + 1}: key "{key.value}" already set in map' for key in keys]


class _Loader(PARSER):  # type: ignore[misc]
    """PyYAML's loader, for YAML 1.1, without the types that JSON does not have."""


def _number(tag: str) -> None:
    plain = getattr(PARSER, f"construct_yaml_{tag}")

    def construct(loader: Any, node: Any) -> Any:
        return node.value if ":" in str(node.value) else plain(loader, node)

    _Loader.add_constructor(f"tag:yaml.org,2002:{tag}", construct)


_number("int")
_number("float")
_Loader.add_constructor(_TIMESTAMP, lambda _loader, node: node.value)
