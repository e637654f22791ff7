"""Renames everything in a snapshot that has a name, the same everywhere, so that decisions stay the same.

Two passes go over the fields of each object by their roles (`berth_workbench.snapshot.roles`). The first collects every
name; `Pseudonyms` then gives each its own, the same one wherever the same text stands, so that whatever was equal is
equal afterwards, and nothing else is. `ordered_names` says what keeps their order, and those that Kubernetes makes of
others (a StatefulSet's pods, their claims, claims of ephemeral volumes) what they are made of. Images, resources, uids,
addresses and conditions with a domain only keep their order, and look like what they are.

What stays is said in `docs/snapshots.md`: quantities, times, words and well-known names of Kubernetes, names of drivers
and of their devices' attributes, CEL expressions, and the attributes' values where an expression mentions them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.untrusted import read_deep
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.kept_fields import TAKEN, Each, Leaf, Shape, Values, is_kubernetes, shape_of
from berth_workbench.snapshot.ordered_names import OrderedNames
from berth_workbench.snapshot.roles import Role
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.snapshot.well_known import (
    ANNOTATIONS,
    API_WORDS,
    COUNTED,
    FINALIZERS,
    KINDS,
    LABEL_KEYS,
    PLAIN_VALUES_OF,
    PLATFORMS,
    WORDS,
    ZONE_KEYS,
)
from berth_workbench.snapshot.writer import taken_from_files, with_counts


def anonymized(snapshot: Snapshot) -> tuple[Snapshot, Mapping[str, str]]:
    """Return a snapshot with the same structure and quantities, and the new name for each old one."""
    source = taken_from_files(snapshot)
    manifests = [document.manifest for document in source.documents]
    collector = _Collector()
    for document, manifest in zip(source.documents, manifests, strict=True):
        _renamed_object(document.kind, manifest, collector)
        collector.note_owners(document.kind, manifest)
    names = Pseudonyms(collector)
    documents = []
    for document, manifest in zip(source.documents, manifests, strict=True):
        renamed = _renamed_object(document.kind, manifest, names)
        metadata = renamed.get("metadata") or {}
        where = (metadata.get("namespace") or "", metadata.get("name") or "")
        body = read_deep(msgspec.json.encode, renamed)
        documents.append(Document(document.kind, body, "anonymized", document.api_version, *where))
    old = source.header or Header()
    header = Header(
        taken=old.taken,
        berth_version=old.berth_version,
        server_version=_version(old.server_version),
        missing=tuple(each for each in old.missing if each.kind in TAKEN),
        anonymized=True,
    )
    return with_counts(documents, header), names.used


# -- names -----------------------------------------------------------------------------------------------------------


class Renaming:
    """What the pass over the fields needs to know about names."""

    def name(self, text: str, sort: str = "name") -> str:
        """Return what a name becomes."""
        raise NotImplementedError

    def value(self, key: str, text: str) -> str:
        """Return what the value of a label or taint becomes."""
        raise NotImplementedError

    def attribute(self, name: str, text: str) -> str:
        """Return what the text of a device's attribute becomes."""
        raise NotImplementedError

    def compares(self, key: str) -> None:
        """Take note that values of this label or taint are compared as numbers."""

    def reads(self, expression: str) -> None:
        """Take note of a CEL expression."""

    def keeps(self, driver: str) -> None:
        """Take note of the name of a driver, which stays."""


class _Collector(Renaming):
    """The first pass: finds out what there is to rename; returns everything as it is."""

    def __init__(self) -> None:
        self.sorts: dict[str, str] = {}
        """The sort of each name: a resource's wherever it also stands, else a name's, else the first that was met."""
        self.numeric_keys: set[str] = set()
        self.expressions: list[str] = []
        self.drivers: set[str] = set()
        self.owners: set[str] = set()
        """Names of what makes pods, and numbers them."""

    def name(self, text: str, sort: str = "name") -> str:
        known = self.sorts.setdefault(text, sort)
        if known != "resource" and (sort == "resource" or (sort not in _FORMS and known in _FORMS)):
            self.sorts[text] = sort
        return text

    def value(self, key: str, text: str) -> str:
        for part in _values(key, text):
            self.name(part, "value")
        return text

    def attribute(self, _name: str, text: str) -> str:
        return self.name(text, "attribute")

    def compares(self, key: str) -> None:
        self.numeric_keys.add(key)

    def reads(self, expression: str) -> None:
        self.expressions.append(expression)

    def keeps(self, driver: str) -> None:
        self.drivers.add(driver)

    def note_owners(self, kind: str, manifest: Mapping[str, Any]) -> None:
        """Note the name under which an object makes pods, or the owner of a pod."""
        if kind in _PODS_OF:
            self.owners.add(_text(_inside(manifest, "metadata", "name")))
        for owner in _list(_inside(manifest, "metadata", "ownerReferences")):
            self.owners.add(_text(_inside(owner, "name")))


class Pseudonyms(Renaming):
    """The second pass: what each name becomes."""

    def __init__(self, found: _Collector) -> None:
        self.used: dict[str, str] = {}
        """What was renamed so far, and to what."""
        self._known: dict[str, str] = {}
        self._kept = WORDS | found.drivers
        self._numeric = found.numeric_keys
        self._expressions = "\n".join(found.expressions)
        by_sort: defaultdict[str, list[str]] = defaultdict(list)
        for text, sort in found.sorts.items():
            by_sort[sort if sort in _FORMS else ""].append(text)
        plain = by_sort.pop("", [])
        names = OrderedNames(plain, found.owners)
        self._known.update((text, names.of(text)) for text in plain)
        for sort, texts in by_sort.items():
            width = len(str(len(texts)))
            for number, text in enumerate(sorted(texts)):
                self._known[text] = _FORMS[sort](number, f"{number:0{width}}")

    def name(self, text: str, sort: str = "name") -> str:
        if text in self._kept:
            return text
        self.used[text] = self._known[text]
        return self._known[text]

    def value(self, key: str, text: str) -> str:
        if key in PLAIN_VALUES_OF:
            keeps = text in PLATFORMS or _INTEGER.fullmatch(text) is not None
        else:
            keeps = key in self._numeric and _INTEGER.fullmatch(text) is not None
        return text if keeps else _SEVERAL.join(map(self.name, _values(key, text)))

    def attribute(self, name: str, text: str) -> str:
        is_mentioned = name.rpartition("/")[2] in self._expressions
        return text if is_mentioned else self.name(text)


_SEVERAL = "__"
"""Stands between the zones of a volume that several have, in the value of its label."""


def _values(key: str, text: str) -> list[str]:
    return text.split(_SEVERAL) if key in ZONE_KEYS else [text]


_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


_FORMS: Mapping[str, Callable[[int, str], str]] = MappingProxyType(
    {
        "uid": lambda number, _digits: f"00000000-0000-4000-8000-{number:012}",
        "image": lambda _number, digits: f"example.com/image-{digits}:v1",
        "resource": lambda _number, digits: f"example.com/resource-{digits}",
        "native": lambda _number, digits: f"kubernetes.io/resource-{digits}",
        "condition": lambda _number, digits: f"example.com/Condition{digits}",
        "address": lambda number, _digits: f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
    }
)
"""What the pseudonyms of some sorts have to look like; all others are names."""

_PODS_OF = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}
)


# -- the pass over the fields ----------------------------------------------------------------------------------------


def _renamed_object(kind: str, manifest: Mapping[str, Any], names: Renaming) -> dict[str, Any]:
    name = _text(_inside(manifest, "metadata", "name"))
    if kind == "CSIDriver":
        names.keeps(name)
    if name:
        names.name(name)
    renamed: dict[str, Any] = _renamed(manifest, shape_of(kind), names)
    return renamed


def _renamed(value: Any, shape: Shape, names: Renaming) -> Any:
    """Return a value with everything in it renamed; what is not as its shape says is left out."""
    if value is None:
        return None
    if isinstance(shape, Leaf):
        return _BY_ROLE[shape.role](value, names)
    if isinstance(shape, Each):
        return [_renamed(each, shape.shape, names) for each in _list(value)]
    if not isinstance(value, Mapping):
        return None
    if isinstance(shape, Values):
        return {_BY_ROLE[shape.role](key, names): _renamed(each, shape.shape, names) for key, each in value.items()}
    found = ((key, _renamed(each, shape[key], names)) for key, each in value.items() if key in shape)
    return {key: each for key, each in found if each is not None}


def _name(value: Any, names: Renaming, sort: str = "name") -> str | None:
    return names.name(value, sort) if isinstance(value, str) else None


def _key(key: str, names: Renaming) -> str:
    """The key of a label or of a taint, which may be the name of a resource."""
    return key if key in LABEL_KEYS else names.name(key, "key")


def _labels(value: Any, names: Renaming) -> Any:
    if not isinstance(value, Mapping):
        return None
    return {_key(key, names): names.value(key, text) for key, text in value.items() if isinstance(text, str)}


def _requirement(value: Any, names: Renaming) -> Any:
    if not isinstance(value, Mapping):
        return None
    key = _text(value.get("key"))
    if value.get("operator") in ("Gt", "Lt"):
        names.compares(key)
    renamed = {"key": key if key == "metadata.name" else _key(key, names), "operator": value.get("operator")}
    if value.get("values") is not None:
        renamed["values"] = [names.value(key, each) for each in _list(value["values"]) if isinstance(each, str)]
    return {name: each for name, each in renamed.items() if each is not None}


def _taint(value: Any, names: Renaming) -> Any:
    """A taint, a device's taint, or a toleration."""
    if not isinstance(value, Mapping):
        return None
    key = _text(value.get("key"))
    if value.get("operator") in ("Gt", "Lt"):
        names.compares(key)
    renamed = {name: each for name, each in value.items() if name in _TAINT_FIELDS}
    if key:
        renamed["key"] = _key(key, names)
    if isinstance(value.get("value"), str):
        renamed["value"] = names.value(key, value["value"])
    return renamed


_TAINT_FIELDS = frozenset({"effect", "operator", "tolerationSeconds", "timeAdded"})


def _resource(value: Any, names: Renaming) -> str | None:
    """The name of a resource: Kubernetes' own stay, and those that stand for a class of devices follow that."""
    if not isinstance(value, str):
        return None
    if value.startswith(_OF_CLASS):
        return _OF_CLASS + names.name(value.removeprefix(_OF_CLASS))
    if _NATIVE.fullmatch(value):
        return value
    if "/" not in value:
        return names.name(value)
    return names.name(value, "native" if is_kubernetes(value) else "resource")


_OF_CLASS = "deviceclass.resource.kubernetes.io/"
_NATIVE = re.compile(
    r"cpu|memory|ephemeral-storage|storage|pods|hugepages-[0-9]+[KMGT]i|"
    r"attachable-volumes-(aws-ebs|gce-pd|azure-disk|cinder|csi-.+)"
)


def _amounts(value: Any, names: Renaming, key: "Callable[[Any, Renaming], Any]" = _resource) -> Any:
    return {key(name, names): each for name, each in value.items()} if isinstance(value, Mapping) else None


def _bounded(value: str, names: Renaming) -> str | None:
    """What a quota bounds: a resource, objects that are counted, or one of these for what is of a class."""
    for start in ("requests.", "limits."):
        if value.startswith(start):
            resource = _resource(value.removeprefix(start), names)
            return None if resource is None else start + resource
    for of_class in _OF_CLASSES:
        name, found, rest = value.partition(of_class)
        if found:
            return names.name(name) + found + (rest if rest in COUNTED else names.name(rest))
    counted = value.removeprefix("count/")
    if counted in COUNTED:
        return value
    return _resource(value, names) if counted == value else f"count/{names.name(counted)}"


_OF_CLASSES = (
    ".storageclass.storage.k8s.io/",
    ".volumeattributesclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
)


def _image(value: Any, names: Renaming) -> str | None:
    """An image, with the tag that stands for none, so that it is found among a node's images afterwards as before."""
    if not isinstance(value, str) or not value:
        return None
    has_tag = value.rfind(":") > value.rfind("/")
    return names.name(value if has_tag else f"{value}:latest", "image")


def _request(value: Any, names: Renaming) -> str | None:
    return "/".join(names.name(part, "request") for part in value.split("/")) if isinstance(value, str) else None


def _attributes(value: Any, names: Renaming) -> Any:
    if not isinstance(value, Mapping):
        return None
    return {key: _attribute(key, each, names) for key, each in value.items() if isinstance(each, Mapping)}


def _attribute(key: str, value: Mapping[str, Any], names: Renaming) -> dict[str, Any]:
    kept = {name: each for name, each in value.items() if name in ("int", "bool", "version")}
    text = value.get("string")
    return {**kept, "string": names.attribute(key, text)} if isinstance(text, str) else kept


def _condition(value: Any, names: Renaming) -> str | None:
    if not isinstance(value, str):
        return None
    return value if value in API_WORDS else names.name(value, "condition" if "/" in value else "name")


def _word(value: Any, _names: Renaming) -> str | None:
    return value if value in API_WORDS else None


def _number(value: Any, _names: Renaming) -> str | None:
    return value if isinstance(value, str) and _NUMBER.fullmatch(value) else None


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?|true|false|yes|no")


def _version(value: Any) -> str:
    found = _VERSION.match(_text(value))
    return found[0] if found else ""


_VERSION = re.compile(r"v[0-9]+(\.[0-9]+)*")


def _kind(value: Any, names: Renaming) -> str | None:
    return value if value in KINDS else _name(value, names, "kind")


def _api_version(value: Any, _names: Renaming) -> str | None:
    return value if value in _VERSIONS else "example.com/v1"


def _api_name(value: Any, names: Renaming) -> str | None:
    """A group, or a resource with what is under it, such as `pods/*`."""
    if not isinstance(value, str):
        return None
    return "/".join(part if part in _API_NAMES else names.name(part) for part in value.split("/"))


_API_NAMES = frozenset({"*", *(part for each in TAKEN.values() for part in (each.group, each.plural))})
_VERSIONS = frozenset({*(each.api_version for each in TAKEN.values()), "autoscaling/v1", "autoscaling/v2"})


def _annotations(value: Any, names: Renaming) -> Any:
    """The annotations that scheduling and the embedded cluster read; all others are left out."""
    if not isinstance(value, Mapping):
        return None
    found = ((key, _BY_ROLE[ANNOTATIONS[key]](text, names)) for key, text in value.items() if key in ANNOTATIONS)
    return {key: text for key, text in found if text is not None}


def _avoided_pods(value: Any, names: Renaming) -> str | None:
    """What NodePreferAvoidPods of v1.20 reads: the controllers whose pods a node would rather not run."""
    try:
        found = msgspec.json.decode(_text(value))
    except msgspec.MsgspecError:
        return None
    controllers = (_inside(each, "podSignature", "podController") for each in _list(_inside(found, "preferAvoidPods")))
    renamed = [
        {"kind": _text(each.get("kind")), "uid": names.name(_text(each.get("uid")), "uid")}
        for each in controllers
        if isinstance(each, Mapping)
    ]
    return msgspec.json.encode(
        {"preferAvoidPods": [{"podSignature": {"podController": each}} for each in renamed]}
    ).decode()


def _expression(value: Any, names: Renaming) -> str | None:
    if isinstance(value, str):
        names.reads(value)
        return value
    return None


def _each(rename: Callable[[Any, Renaming], Any]) -> Callable[[Any, Renaming], Any]:
    def renamed(value: Any, names: Renaming) -> Any:
        return [found for each in _list(value) if (found := rename(each, names)) is not None]

    return renamed


_BY_ROLE: Mapping[Role, Callable[[Any, Renaming], Any]] = MappingProxyType(
    {
        Role.KEPT: lambda value, _names: value,
        Role.DROPPED: lambda _value, _names: None,
        Role.WORD: _word,
        Role.WORDS: _each(_word),
        Role.NUMBER: _number,
        Role.VERSION: lambda value, _names: _version(value) or None,
        Role.NAME: _name,
        Role.NAMES: _each(_name),
        Role.UID: lambda value, names: _name(value, names, "uid"),
        Role.LABELS: _labels,
        Role.LABEL_KEY: lambda value, names: _key(_text(value), names),
        Role.LABEL_KEYS: _each(lambda value, names: _key(_text(value), names)),
        Role.REQUIREMENTS: _each(_requirement),
        Role.TAINTS: _each(_taint),
        Role.TAINT: _taint,
        Role.TOLERATIONS: _each(_taint),
        Role.ANNOTATIONS: _annotations,
        Role.FINALIZERS: _each(lambda value, _names: value if value in FINALIZERS else None),
        Role.IMAGE: _image,
        Role.IMAGES: _each(_image),
        Role.RESOURCE: _resource,
        Role.RESOURCE_AMOUNTS: _amounts,
        Role.QUOTA_AMOUNTS: lambda value, names: _amounts(value, names, _bounded),
        Role.REQUEST: _request,
        Role.REQUESTS: _each(_request),
        Role.ATTRIBUTES: _attributes,
        Role.CEL: _expression,
        Role.CONDITION: _condition,
        Role.CONDITIONS: _each(_condition),
        Role.KIND: _kind,
        Role.API_VERSION: _api_version,
        Role.API_NAMES: _each(_api_name),
        Role.AVOIDED_PODS: _avoided_pods,
        Role.ADDRESS: lambda value, names: _name(value, names, "address"),
    }
)


def _inside(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
