"""Changes of a cluster that people ask about: values, read from a flag or from a step of a scenario.

Each change is a frozen struct. `parse_flag` reads what follows a flag, `read_step` what a scenario file holds;
`berth_workbench.simulation.operations` carries changes out on a cluster.
"""

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self, TypeVar

import msgspec

from berth.api.near_names import nearest
from berth.api.node import Node
from berth.api.selectors import SelectorError, parse_label_selector
from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from berth.api.user_error import UserError

MAX_ADDED_NODES = 100_000
MAX_REPLICAS = 1_000_000

WORKLOAD_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        short: kind
        for kind, names in {
            "Deployment": ("deployment", "deployments", "deploy"),
            "ReplicaSet": ("replicaset", "replicasets", "rs"),
            "ReplicationController": ("replicationcontroller", "replicationcontrollers", "rc"),
            "StatefulSet": ("statefulset", "statefulsets", "sts"),
            "Job": ("job", "jobs"),
            "DaemonSet": ("daemonset", "daemonsets", "ds"),
            "CronJob": ("cronjob", "cronjobs", "cj"),
        }.items()
        for short in names
    }
)
"""What people call the kinds of workloads, as kubectl understands it."""
UNSCALABLE = ("DaemonSet", "CronJob")


class ChangeError(UserError, ValueError):
    """A change that cannot be read or cannot be made; the message is one line that says which and why."""


class ClusterChange(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all changes have in common."""

    step: ClassVar[str]
    """The key of the change in a scenario file."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what follows the flag, by default the only field. Raises `ChangeError`."""
        return _checked(cls(text.strip()))

    def check(self) -> None:
        """Raise `ChangeError` where a value makes no sense."""

    def __str__(self) -> str:
        """The change in words, as in `drain n1`."""
        return f"{self.step} {self.what}"

    @property
    def what(self) -> str:
        """What is changed, in words."""
        raise NotImplementedError


Checked = TypeVar("Checked", bound=ClusterChange)


class NodeChange(ClusterChange, frozen=True):
    """A change of nodes that are chosen by name, by pattern (`gpu-*`) or by label selector (`pool=gpu,!spot`)."""

    nodes: str | list[str]

    def check(self) -> None:
        """Raise `ChangeError` where the choice cannot be read."""
        for text in [self.nodes] if isinstance(self.nodes, str) else self.nodes:
            node_filter(text)

    def chosen(self, nodes: Iterable[Node]) -> list[str]:
        """Return the names of the nodes that are meant, in order. Raises `ChangeError` where there is none."""
        known = list(nodes)
        found: dict[str, None] = {}
        for text in [self.nodes] if isinstance(self.nodes, str) else self.nodes:
            is_meant = node_filter(text)
            names = [node.metadata.name for node in known if is_meant(node)]
            if not names:
                raise ChangeError(f"{self}: {_no_such_node(text, known)}")
            found |= dict.fromkeys(names)
        return list(found)

    @property
    def what(self) -> str:
        """The nodes as they were given."""
        return self.nodes if isinstance(self.nodes, str) else ", ".join(self.nodes)


def node_filter(text: str) -> Callable[[Node], bool]:
    """Return what says whether a node is meant by a name, a pattern or a label selector. Raises `ChangeError`."""
    if not text.strip():
        raise ChangeError("the name of a node is missing")
    if any(sign in text for sign in "=!,") or " in (" in text or " notin (" in text:
        try:
            selector = parse_label_selector(text)
        except SelectorError as error:
            raise ChangeError(f"{text!r} is no label selector: {error}") from None
        return lambda node: selector.matches(node.metadata.labels)
    if any(sign in text for sign in "*?["):
        return lambda node: fnmatch.fnmatchcase(node.metadata.name, text)
    return lambda node: node.metadata.name == text


def _no_such_node(text: str, nodes: list[Node]) -> str:
    if not nodes:
        return "the cluster has no nodes"
    names = sorted(node.metadata.name for node in nodes)
    some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"no node {text!r}{nearest(text, names) or f'; the cluster has {len(names)}: {some}'}"


class Drain(NodeChange, frozen=True):
    """Cordon nodes and evict their pods, as `kubectl drain --force --ignore-daemonsets` does, within the budgets."""

    step: ClassVar[str] = "drain"


class Cordon(NodeChange, frozen=True):
    """Let no more pods onto nodes."""

    step: ClassVar[str] = "cordon"


class Uncordon(NodeChange, frozen=True):
    """Let pods onto nodes again."""

    step: ClassVar[str] = "uncordon"


class RemoveNodes(NodeChange, frozen=True):
    """Take nodes away at once, as when their machines fail; nobody asks the budgets."""

    step: ClassVar[str] = "removeNodes"

    def __str__(self) -> str:
        return f"remove {self.what}"


class AddNodes(ClusterChange, frozen=True):
    """Add nodes like one that is there: its labels, taints and allocatable, a fresh name, and its daemons."""

    step: ClassVar[str] = "addNodes"
    like: str
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `N=LIKE-NODE`."""
        count, equals, like = text.partition("=")
        if not equals:
            raise ChangeError(f"{text!r} is not N=LIKE-NODE, as in 3=node-1")
        return _checked(cls(like.strip(), _count(count, text, "N=LIKE-NODE")))

    def check(self) -> None:
        """Raise `ChangeError` where there are none to add, or too many."""
        if not self.like:
            raise ChangeError("the name of the node to copy is missing")
        if not 1 <= self.count <= MAX_ADDED_NODES:
            raise ChangeError(f"{self.count} nodes cannot be added; 1 to {MAX_ADDED_NODES} can")

    def __str__(self) -> str:
        return f"add {self.count} like {self.like}"


class LoseZone(ClusterChange, frozen=True):
    """Take away all nodes of a zone at once."""

    step: ClassVar[str] = "loseZone"
    zone: str

    def check(self) -> None:
        """Raise `ChangeError` where the name is missing."""
        if not self.zone:
            raise ChangeError("the name of the zone is missing")

    def __str__(self) -> str:
        return f"lose zone {self.zone}"


class WorkloadChange(ClusterChange, frozen=True):
    """A change of one workload, `KIND/NAME` or `KIND/NAMESPACE/NAME`."""

    workload: str

    @property
    def what(self) -> str:
        """The workload as it was given."""
        return self.workload

    @property
    def kind(self) -> str:
        """The kind, as manifests spell it."""
        return WORKLOAD_KINDS[self.workload.partition("/")[0].lower()]

    @property
    def namespace(self) -> str:
        """The namespace; empty where any is meant."""
        rest = self.workload.partition("/")[2]
        return rest.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name."""
        return self.workload.rpartition("/")[2]

    def check(self) -> None:
        """Raise `ChangeError` where no workload can be named like this."""
        kind, slash, rest = self.workload.partition("/")
        if not slash or not rest or rest.count("/") > 1 or not all(rest.split("/")):
            raise ChangeError(f"{self.workload!r} is not KIND/NAME or KIND/NAMESPACE/NAME, as in deployment/web")
        if kind.lower() not in WORKLOAD_KINDS:
            kinds = ", ".join(sorted({each.lower() for each in WORKLOAD_KINDS.values()}))
            hint = nearest(kind, WORKLOAD_KINDS) or f"; known are {kinds}"
            raise ChangeError(f"{kind!r} is no kind of workload{hint}")


class Scale(WorkloadChange, frozen=True):
    """Give a workload another number of pods."""

    step: ClassVar[str] = "scale"
    replicas: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND/NAME=N`."""
        workload, equals, count = text.rpartition("=")
        if not equals:
            raise ChangeError(f"{text!r} is not KIND/NAME=N, as in deployment/web=5")
        return _checked(cls(workload.strip(), _count(count, text, "KIND/NAME=N")))

    def check(self) -> None:
        """Raise `ChangeError` where no workload can be scaled like this."""
        super().check()
        if self.kind in UNSCALABLE:
            raise ChangeError(f"a {self.kind} has no number of replicas")
        if not 0 <= self.replicas <= MAX_REPLICAS:
            raise ChangeError(f"{self.replicas} replicas cannot be tried; 0 to {MAX_REPLICAS} can")

    def __str__(self) -> str:
        return f"scale {self.workload} to {self.replicas}"


class DeleteWorkload(WorkloadChange, frozen=True):
    """Delete a workload and its pods; a StatefulSet's claims stay."""

    step: ClassVar[str] = "delete"


class Evict(ClusterChange, frozen=True):
    """Evict pods at once, as a descheduler does: those that budgets protect stay, controllers replace the others.

    A pod is `NAMESPACE/NAME`, or a name that only one namespace has.
    """

    step: ClassVar[str] = "evict"
    pods: str | list[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `POD[,POD…]`."""
        return _checked(cls([each.strip() for each in text.split(",")] if "," in text else text.strip()))

    @property
    def names(self) -> list[str]:
        """The pods as they were given."""
        return [self.pods] if isinstance(self.pods, str) else self.pods

    def check(self) -> None:
        """Raise `ChangeError` where there is none, or no pod can be named like this."""
        for text in self.names or [""]:
            if not all(text.split("/")) or text.count("/") > 1:
                raise ChangeError(f"{text!r} is not POD or NAMESPACE/POD, as in shop/web-0")

    def chosen(self, pods: Mapping[str, Any]) -> list[str]:
        """Return the pods that are meant out of those there are, as `namespace/name`. Raises `ChangeError`."""
        found: dict[str, None] = {}
        for text in self.names:
            keys = [text] if "/" in text else [key for key in pods if key.partition("/")[2] == text]
            if len(keys) > 1:
                raise ChangeError(f"{self}: there is a pod {text!r} in several namespaces: {', '.join(sorted(keys))}")
            if not keys or keys[0] not in pods:
                known = pods if "/" in text else {key.partition("/")[2] for key in pods}
                raise ChangeError(f"{self}: no pod {text!r}{nearest(text, known)}")
            found[keys[0]] = None
        return list(found)

    def __str__(self) -> str:
        return f"evict {', '.join(self.names)}"


class Upgrade(NodeChange, frozen=True):
    """Upgrade nodes one after the other: drain, come back with these labels, next.

    `surge` nodes like the first are added before, and drained and taken away at the end. A drain that a budget blocks
    ends the upgrade, unless `force` evicts what is left.
    """

    step: ClassVar[str] = "upgrade"
    labels: dict[str, str] = {}
    surge: int = 0
    force: bool = False

    def check(self) -> None:
        """Raise `ChangeError` where nodes or surge make no sense."""
        super().check()
        if not 0 <= self.surge <= MAX_ADDED_NODES:
            raise ChangeError(f"a surge of {self.surge} nodes cannot be tried; 0 to {MAX_ADDED_NODES} can")


class AddTaint(NodeChange, frozen=True):
    """Taint nodes; NoExecute evicts who does not tolerate it, and nobody asks the budgets."""

    step: ClassVar[str] = "taint"
    taint: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NODE:KEY[=VALUE]:EFFECT`."""
        nodes, colon, taint = text.partition(":")
        if not colon or ":" not in taint:
            raise ChangeError(f"{text!r} is not NODE:KEY[=VALUE]:EFFECT, as in node-1:gpu=yes:NoSchedule")
        return _checked(cls(nodes, taint))

    def check(self) -> None:
        """Raise `ChangeError` where the taint cannot be read."""
        super().check()
        self.value  # noqa: B018 - reading it is the check

    @property
    def value(self) -> Taint:
        """The taint. Raises `ChangeError`."""
        rest, colon, effect = self.taint.rpartition(":")
        key, _, value = rest.partition("=")
        if not colon or not key or effect not in (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE):
            raise ChangeError(
                f"{self.taint!r} is no taint; write KEY[=VALUE]:EFFECT with effect {NO_SCHEDULE}, "
                f"{PREFER_NO_SCHEDULE} or {NO_EXECUTE}"
            )
        return Taint(key, value, effect)

    def __str__(self) -> str:
        return f"taint {self.what} {self.taint}"


class RemoveTaint(NodeChange, frozen=True):
    """Take taints off nodes: those with this key and, where it is given, this effect."""

    step: ClassVar[str] = "untaint"
    taint: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NODE:KEY[:EFFECT]`."""
        nodes, colon, taint = text.partition(":")
        if not colon or not taint:
            raise ChangeError(f"{text!r} is not NODE:KEY[:EFFECT], as in node-1:gpu:NoSchedule")
        return _checked(cls(nodes, taint))

    def matches(self, taint: Taint) -> bool:
        """Say whether a taint goes."""
        key, _, effect = self.taint.partition(":")
        return taint.key == key.partition("=")[0] and effect in ("", taint.effect)

    def __str__(self) -> str:
        return f"untaint {self.what} {self.taint}"


class LabelNodes(NodeChange, frozen=True):
    """Label nodes; null takes a label off."""

    step: ClassVar[str] = "label"
    labels: dict[str, str | None]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NODE:KEY=VALUE[,…]`, or `KEY-` to take a label off."""
        nodes, colon, rest = text.partition(":")
        if not colon or not rest:
            raise ChangeError(f"{text!r} is not NODE:KEY=VALUE, as in node-1:pool=gpu")
        labels: dict[str, str | None] = {}
        for part in rest.split(","):
            key, equals, value = part.partition("=")
            if not equals and not key.endswith("-"):
                raise ChangeError(f"{part!r} is not KEY=VALUE or KEY-")
            labels[key if equals else key[:-1]] = value if equals else None
        return _checked(cls(nodes, labels))

    def __str__(self) -> str:
        shown = ",".join(f"{key}-" if value is None else f"{key}={value}" for key, value in self.labels.items())
        return f"label {self.what} {shown}"


CHANGES: Final[Mapping[str, type[ClusterChange]]] = MappingProxyType(
    {
        each.step: each
        for each in (
            Drain,
            Cordon,
            Uncordon,
            RemoveNodes,
            AddNodes,
            LoseZone,
            Scale,
            DeleteWorkload,
            Evict,
            Upgrade,
            AddTaint,
            RemoveTaint,
            LabelNodes,
        )
    }
)
"""Every kind of change by its key in a scenario file."""
_SHORT: Final[Mapping[str, str]] = MappingProxyType({"loseZone": "zone", "delete": "workload", "evict": "pods"})
"""The field that a step without fields gives; for changes of nodes, that is the nodes."""


def parse_flag(step: str, text: str) -> ClusterChange:
    """Read what follows the flag of a change. Raises `ChangeError`."""
    return CHANGES[step].parse(text)


def read_step(step: str, value: Any, path: str) -> ClusterChange:
    """Read a step of a scenario, which is at this path of its file. Raises `ChangeError`."""
    kind = CHANGES.get(step)
    if kind is None:
        raise ChangeError(f"{path}: no step is called {step!r}; there are {', '.join(CHANGES)}")
    if not isinstance(value, Mapping):
        short = _SHORT.get(step) or ("nodes" if issubclass(kind, NodeChange) else "")
        if not short:
            raise ChangeError(f"{path}.{step}: an object is expected, not {value!r}")
        value = {short: value}
    try:
        return _checked(msgspec.convert(value, kind))
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        raise ChangeError(f"{path}.{step}{where.rstrip('`')}: {problem}") from None
    except ChangeError as error:
        raise ChangeError(f"{path}.{step}: {error}") from None


def _checked(change: Checked) -> Checked:
    change.check()
    return change


def _count(text: str, whole: str, form: str) -> int:
    if not text.strip().isdecimal():
        raise ChangeError(f"{whole!r} is not {form}: {text.strip()!r} is no whole number")
    return int(text)
