"""SySched: prefers nodes whose pods may make the same system calls, so that a pod sees few that only others need.

Upstream plugin `SySched`. A pod's calls are those that its seccomp profiles allow or log: SeccompProfile objects of the
security-profiles-operator, named by security contexts or an annotation; without any, those of a default profile. A node
scores the calls that the pod would see there without needing them, plus those that each pod there would then see;
the fewest are best.

Only pods that run count; of several pods of one name on a node, the first.

Deviations: a pod counts from when it runs, not from the update before that. Profiles that change count from then on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    ColumnScorePlugin,
    CustomResource,
    CycleState,
    Handle,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    ObjectMeta,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
)
from berth_plugins.normalize import turned_round

ANNOTATION = "seccomp.security.alpha.kubernetes.io"
LOCALHOST = "Localhost"
KEPT_SETS = 64
"""For so many sets of calls scores are kept between attempts."""
LOGGED = 1000
"""So many changes are remembered; scores that are older are worked out again for all nodes."""
ALLOWING = ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG")


class SyscallRule(msgspec.Struct, frozen=True):
    """System calls, and what happens when one is made."""

    action: str = ""
    names: tuple[str, ...] = ()


class SeccompProfileSpec(msgspec.Struct, frozen=True):
    """The spec of a profile, as far as this plugin reads it."""

    syscalls: tuple[SyscallRule, ...] | None = None


class SeccompProfile(msgspec.Struct, frozen=True):
    """A SeccompProfile of the security-profiles-operator."""

    metadata: ObjectMeta
    spec: SeccompProfileSpec = SeccompProfileSpec()


PROFILES = CustomResource(
    "security-profiles-operator.x-k8s.io", "v1beta1", "seccompprofiles", "SeccompProfile", struct=SeccompProfile
)


class SySchedArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The profile of pods that have none."""

    default_profile_namespace: str = "default"
    default_profile_name: str = "all-syscalls"


def profile_named_by(path: str) -> tuple[str, str] | None:
    """Return namespace and name of the profile behind a path such as `operator/NAMESPACE/NAME.json`; None for none."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    file = parts[-1]
    namespace, name = parts[-2], file[: file.rindex(".")] if "." in file else file
    return (namespace, name) if namespace and name else None


class Kept(NamedTuple):
    """Scores by row of the table, what they are as of, and up to which change of a node."""

    scores: Scores
    as_of: tuple[int, int, int]
    since: int


@final
class SySched(
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    ScoreExplainingPlugin,
):
    """Score.

    Sets of calls are numbers with a bit for each call. What a node scores follows from three of them: the calls H of
    all its pods together, their number n, and the sum s of the sizes of their sets. As each set is a part of H, a pod
    with the calls P makes that |H without P| + n times |H and P together| - s.
    """

    name: ClassVar[str] = "SySched"
    args_type: ClassVar[type[msgspec.Struct]] = SySchedArgs

    def __init__(self, args: SySchedArgs, handle: Handle) -> None:
        self._default = args.default_profile_namespace, args.default_profile_name
        self._profiles = handle.follow(PROFILES)
        self._bit_of: dict[str, int] = {}
        self._calls_of: dict[tuple[str, str], int] = {}
        """The calls of each profile that was asked for, as of `_version`."""
        self._version = -1
        self._pods: dict[str, dict[str, PodInfo]] = {}
        """The running pods of each node, by uid, in the order they came."""
        self._loads: dict[str, tuple[int, int, int]] = {}
        """H, n and s of each node, where they are known."""
        self._kept: dict[int, Kept] = {}
        """The scores of pods that make the same calls; the set that was asked for longest ago first."""
        self._log: list[str] = []
        """The nodes where something has changed, one after the other, less the first `_forgotten` of them."""
        self._forgotten = 0
        self._changed: set[str] = set()
        """The nodes whose rows in the arrays are out of date."""
        self._arrays_as_of: tuple[int, int, int, int] | None = None
        self._rows_together: NDArray[np.uint64] = np.zeros((0, 1), dtype=np.uint64)
        self._rows_count: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._rows_sizes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def pod_added(self, pod: PodInfo) -> None:
        """Note a pod that runs."""
        if pod.node_name and pod.status.phase == "Running":
            self._pods.setdefault(pod.node_name, {})[pod.uid] = pod
            self._note(pod.node_name)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note a pod that runs from now on."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Forget a pod that is gone. A node keeps its place: it has run something."""
        if pod.uid in self._pods.get(pod.node_name, {}):
            del self._pods[pod.node_name][pod.uid]
            self._note(pod.node_name)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Count the calls that are seen on a node without being needed."""
        return self._extraneous(self._calls(pod), node.name)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows; only those cost a step where what runs has changed."""
        needed = self._calls(pod)
        if not needed:
            return np.zeros(table.capacity, dtype=np.int64)[rows]
        self._renew()
        token = table.node_log.position, table.capacity, self._version
        kept = self._kept.pop(needed, None)
        if kept is not None and kept.as_of == token and kept.since >= self._forgotten:
            scores = kept.scores
            for name in set(self._log[kept.since - self._forgotten :]):
                if (row := table.row_of.get(name)) is not None:
                    scores[row] = self._extraneous(needed, name)
        else:
            together, counts, sizes = self._arrays(table)
            calls = _words(needed, together.shape[1])
            own = np.bitwise_count(together & ~calls).sum(axis=1, dtype=np.int64)
            all_of_them = np.bitwise_count(together | calls).sum(axis=1, dtype=np.int64)
            scores = own + counts * all_of_them - sizes
        self._kept[needed] = Kept(scores, token, self._forgotten + len(self._log))
        if len(self._kept) > KEPT_SETS:
            del self._kept[next(iter(self._kept))]  # that which was asked for longest ago
        return scores[rows].copy()

    def _note(self, node_name: str) -> None:
        """Note that other pods run on a node than before."""
        self._loads.pop(node_name, None)
        self._changed.add(node_name)
        self._log.append(node_name)
        if len(self._log) > LOGGED:
            self._forgotten += len(self._log)
            self._log.clear()

    def _arrays(self, table: NodeTable) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
        """Return H as words of 64 calls, uint64 (rows, words), n and s, int64 (rows,); zeros where nothing runs.

        They are made again when nodes, profiles or the number of words have changed, else only for the nodes whose
        pods have.
        """
        self._renew()
        words = max(1, -(-len(self._bit_of) // 64))
        token = table.node_log.position, table.capacity, self._version, words
        if token != self._arrays_as_of:
            self._arrays_as_of = token
            self._rows_together = np.zeros((table.capacity, words), dtype=np.uint64)
            self._rows_count = np.zeros(table.capacity, dtype=np.int64)
            self._rows_sizes = np.zeros(table.capacity, dtype=np.int64)
            self._changed = set(self._pods)
        if self._changed:
            loads = {name: self._load(name) for name in self._changed}
            if len(self._bit_of) > 64 * words:  # profiles that were not asked for before have brought more calls
                return self._arrays(table)
            for name, (together, count, sizes) in loads.items():
                if (row := table.row_of.get(name)) is not None:
                    self._rows_together[row] = _words(together, words)
                    self._rows_count[row], self._rows_sizes[row] = count, sizes
            self._changed.clear()
        return self._rows_together, self._rows_count, self._rows_sizes

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """The fewest calls are best."""
        return turned_round(scores)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return how many calls the pod would see without needing them, and how many more the pods there."""
        needed = self._calls(pod)
        if not needed:
            return ["no profile says which system calls the pod makes, so all nodes are the same to it"]
        others = (each for each in self._pods.get(node.name, {}).values() if each.uid != pod.uid)
        together, count, sizes = self._load_of(others)
        own, theirs = (together & ~needed).bit_count(), count * (together | needed).bit_count() - sizes
        calls = f"the pod makes {needed.bit_count()} system calls, {count} pods there {together.bit_count()} together"
        return [f"{calls}: it would see {own} that it does not need, and they {theirs}, a risk of {own + theirs}"]

    def _extraneous(self, needed: int, node_name: str) -> int:
        if not needed:  # upstream gives all nodes the same then
            return 0
        together, count, sizes = self._load(node_name)
        return (together & ~needed).bit_count() + count * (together | needed).bit_count() - sizes

    def _load(self, node_name: str) -> tuple[int, int, int]:
        self._renew()
        found = self._loads.get(node_name)
        if found is None:
            found = self._loads[node_name] = self._load_of(self._pods.get(node_name, {}).values())
        return found

    def _load_of(self, pods: Iterable[PodInfo]) -> tuple[int, int, int]:
        """Return H, n and s of some pods."""
        first_of_name: dict[str, PodInfo] = {}
        for pod in pods:
            first_of_name.setdefault(pod.name, pod)
        sets = [self._calls(pod) for pod in first_of_name.values()]
        together = 0
        for calls in sets:
            together |= calls
        return together, len(sets), sum(calls.bit_count() for calls in sets)

    def _renew(self) -> None:
        """Forget what profiles said that have changed."""
        if self._profiles.version != self._version:
            self._version = self._profiles.version
            self._calls_of.clear()
            self._loads.clear()

    def _calls(self, pod: PodInfo) -> int:
        """Return the calls of a pod: those of all its profiles together, else those of the default profile."""
        self._renew()
        found = 0
        for named in profiles_of(pod):
            found |= self._calls_in(named) or 0
        found |= self._calls_by_annotation(pod.metadata.annotations)
        return found or self._calls_in(self._default) or 0

    def _calls_by_annotation(self, annotations: Mapping[str, str]) -> int:
        """Return the calls of the first annotated profile that exists."""
        for key in sorted(annotations):
            if ANNOTATION in key:
                named = profile_named_by(annotations[key])
                calls = 0 if named is None else self._calls_in(named)
                if calls is not None:
                    return calls
        return 0

    def _calls_in(self, named: tuple[str, str]) -> int | None:
        """Return the calls that a profile allows or logs; None where there is no such profile."""
        known = self._calls_of.get(named)
        if known is None:
            profile: SeccompProfile | None = self._profiles.get(named[1], named[0])
            if profile is None:
                return None
            rules = (rule for rule in profile.spec.syscalls or () if rule.action in ALLOWING)
            known = self._calls_of[named] = self._set_of(name for rule in rules for name in rule.names)
        return known

    def _set_of(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= 1 << self._bit_of.setdefault(name, len(self._bit_of))
        return found


def profiles_of(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the profiles that the security contexts of a pod and its containers name."""
    contexts: list[Any] = [pod.spec.security_context, *(each.security_context for each in pod.spec.containers)]
    for context in contexts:
        profile = context.seccomp_profile
        if profile is not None and profile.type == LOCALHOST and profile.localhost_profile is not None:
            named = profile_named_by(profile.localhost_profile)
            if named is not None:
                yield named


def _words(calls: int, count: int) -> NDArray[np.uint64]:
    """Return a set of calls as so many words of 64, uint64 (count,)."""
    return np.frombuffer(calls.to_bytes(8 * count, "little"), dtype="<u8").astype(np.uint64)
