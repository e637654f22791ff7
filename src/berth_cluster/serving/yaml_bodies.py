"""YAML bodies, read without trust, and as Kubernetes reads them: dates and numbers in base 60 are plain strings."""

from typing import Any

import yaml

from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def load_yaml(body: bytes) -> Any:
    """The body as plain values; raises `yaml.YAMLError` or `UnreasonableYAML`."""
    refuse_bombs(body)
    try:
        return yaml.load(body, Loader=_Loader)
    except ValueError as error:  # a scalar that is not what its tag says, or a number of thousands of digits
        raise UnreasonableYAML(f"it holds a value that cannot be read: {error}") from None


class _Loader(PARSER):  # type: ignore[misc]
    """PyYAML's, for YAML 1.1, without what JSON has not."""


def _number(tag: str) -> None:
    plain = getattr(PARSER, f"construct_yaml_{tag}")

    def construct(loader: Any, node: Any) -> Any:
        return node.value if ":" in str(node.value) else plain(loader, node)

    _Loader.add_constructor(f"tag:yaml.org,2002:{tag}", construct)


_number("int")
_number("float")
_Loader.add_constructor(_TIMESTAMP, lambda _loader, node: node.value)
