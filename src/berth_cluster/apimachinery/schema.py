"""The fields of the API's objects: names, types, and their numbers in protobuf bodies.

The schemas are text files in `schemas/`, one for each API group, with one block for each type:

    PodSpec
      1 volumes []Volume
      7 nodeSelector map string
      - schedulingGroup PodSchedulingGroup

A field has a number (`-` where it has none), a name and a type: a scalar, another type (`meta/ObjectMeta` is in another
file), a list (`[]`) or a map from strings (`map`). A field called `inline` is a struct of its own in protobuf, whose
fields stand one level higher in JSON. `any` is JSON of any shape. The check for unknown fields, the protobuf reader and
the OpenAPI documents are all driven by these schemas.
"""

from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import NamedTuple

SCALARS = frozenset(
    {
        "any",
        "bool",
        "bytes",
        "double",
        "Duration",
        "int32",
        "int64",
        "IntOrString",
        "MicroTime",
        "Quantity",
        "string",
        "Time",
    }
)

# schema file -> (API group, version) of the kinds in it
FILES: MappingProxyType[str, tuple[str, str]] = MappingProxyType(
    {
        "admissionregistration": ("admissionregistration.k8s.io", "v1"),
        "apps": ("apps", "v1"),
        "authentication": ("authentication.k8s.io", "v1"),
        "authorization": ("authorization.k8s.io", "v1"),
        "autoscaling": ("autoscaling", "v1"),
        "autoscaling_v2": ("autoscaling", "v2"),
        "batch": ("batch", "v1"),
        "certificates": ("certificates.k8s.io", "v1"),
        "coordination": ("coordination.k8s.io", "v1"),
        "core": ("", "v1"),
        "discovery": ("discovery.k8s.io", "v1"),
        "events": ("events.k8s.io", "v1"),
        "meta": ("meta.k8s.io", "v1"),
        "networking": ("networking.k8s.io", "v1"),
        "node": ("node.k8s.io", "v1"),
        "policy": ("policy", "v1"),
        "rbac": ("rbac.authorization.k8s.io", "v1"),
        "resource": ("resource.k8s.io", "v1"),
        "resource_v1alpha3": ("resource.k8s.io", "v1alpha3"),
        "resource_v1beta1": ("resource.k8s.io", "v1beta1"),
        "resource_v1beta2": ("resource.k8s.io", "v1beta2"),
        "scheduling": ("scheduling.k8s.io", "v1"),
        "scheduling_v1alpha1": ("scheduling.k8s.io", "v1alpha1"),
        "scheduling_v1alpha2": ("scheduling.k8s.io", "v1alpha2"),
        "scheduling_v1beta1": ("scheduling.k8s.io", "v1beta1"),
        "storage": ("storage.k8s.io", "v1"),
    }
)
_FILE_OF = MappingProxyType({place: name for name, place in FILES.items()})


class Field(NamedTuple):
    """One field of a type; `type` is a scalar or the full name (`core/PodSpec`) of another type."""

    number: int  # 0 where there is none
    name: str
    type: str
    is_list: bool
    is_map: bool

    @property
    def is_scalar(self) -> bool:
        """Whether the (element) type is a scalar rather than a type with fields."""
        return self.type in SCALARS


class Message(NamedTuple):
    """One type: its fields as JSON names them, and as protobuf numbers them."""

    name: str
    fields: dict[str, Field]  # with those of inlined structs
    numbers: dict[int, Field]  # as they are on the wire
    is_kind: bool  # has metadata, so JSON objects of it have kind and apiVersion

    @property
    def short_name(self) -> str:
        """The name without the file."""
        return self.name.partition("/")[2]


def message_of(group: str, version: str, kind: str) -> Message | None:
    """The type of a kind, if there is a schema for it."""
    file = _FILE_OF.get((group, version))
    return None if file is None else messages().get(f"{file}/{kind}")


@lru_cache(maxsize=1)
def messages() -> dict[str, Message]:
    """All types by full name; read when first asked for, shared from then on."""
    declared: dict[str, list[Field]] = {}
    directory = resources.files("berth_cluster.apimachinery") / "schemas"
    for file in FILES:
        _parse(file, (directory / f"{file}.txt").read_text("utf-8"), declared)
    return {name: _message(name, declared) for name in declared}


def _parse(file: str, text: str, declared: dict[str, list[Field]]) -> None:
    fields: list[Field] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            number, name, described = line.split(maxsplit=2)
            fields.append(_field(file, number, name, described))
        else:
            fields = declared[f"{file}/{line}"] = []


def _field(file: str, number: str, name: str, described: str) -> Field:
    is_map = described.startswith("map ")
    is_list = described.startswith("[]")
    element = described.removeprefix("map ").removeprefix("[]")
    if element not in SCALARS and "/" not in element:
        element = f"{file}/{element}"
    return Field(0 if number == "-" else int(number), name, element, is_list, is_map)


def _message(name: str, declared: dict[str, list[Field]]) -> Message:
    fields: dict[str, Field] = {}
    for field in declared[name]:
        if field.name == "inline":
            fields.update(_message(field.type, declared).fields)
        else:
            fields[field.name] = field
    numbers = {field.number: field for field in declared[name] if field.number}
    is_kind = name in _KINDS_WITHOUT_METADATA or ("metadata" in fields and not name.endswith("TemplateSpec"))
    return Message(name, fields, numbers, is_kind)


_KINDS_WITHOUT_METADATA = frozenset({"meta/DeleteOptions", "meta/Status"})
