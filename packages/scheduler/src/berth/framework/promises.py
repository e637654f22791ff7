"""What a plugin promises about its answers, as one value that its class declares.

A promise lets the engine do less: keep a column from pod to pod, skip a question, repair one row without arrays.
Leaving a promise out is always safe, breaking one is always wrong, so each class makes its own: `promises` is never
inherited. A subclass that declares none promises nothing, and the methods that go with a promise (`filter_row`,
`pre_filter_version`, …) are not called for it. One that keeps every promise of its base says so with `promises:
ClassVar[Promises] = Base.promises`, or changes some of them with `msgspec.structs.replace`.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from berth.config.types import ExtensionPoint
from berth.state.pod_info import LABELS, REQUESTS, PodInfo


class Dependency(Enum):
    """What a plugin's answer for a row depends on, besides the pod's signature."""

    NODE = "node"
    PODS_ON_NODE = "pods_on_node"
    PODS_ANYWHERE = "pods_anywhere"
    ALL_NODES = "all_nodes"
    OWN_RESERVATIONS = "own_reservations"
    FEASIBLE_SET = "feasible_set"
    UNKNOWN = "unknown"


class Objects(NamedTuple):
    """A dependency on objects of these kinds."""

    kinds: tuple[str, ...]


Dependencies = frozenset[Dependency | Objects]

NEVER_KEPT: Dependencies = frozenset({Dependency.UNKNOWN, Dependency.FEASIBLE_SET})
"""Answers that depend on one of these are computed anew for each pod."""

UNKNOWN: Dependencies = frozenset({Dependency.UNKNOWN})
"""The dependencies of a plugin that declares none: its answers are never kept."""

Purity = bool | Callable[[PodInfo], bool]
"""Whether an answer is pure: for every pod, for none, or for pods for which the function returns True."""


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin promises about its answers; the default of each field promises nothing."""

    filter_depends_on: Dependencies = UNKNOWN
    """What the answers of `filter` and `filter_columns` for a node depend on, besides what `signature` returns for the
    pod.
    """

    score_depends_on: Dependencies = UNKNOWN
    """What the answers of `score` and `score_columns` for a node depend on, besides what `signature` returns for the
    pod. It may be asked about nodes on which the pod does not fit; whatever it raises there is not an error.
    """

    filters_by_row: bool = False
    """`filter_row` gives a row the same code as `filter_columns`. A code's meaning must not have changed since the
    column was computed.
    """

    scores_by_row: bool = False
    """`score_row` gives a row the same score as `score_columns`."""

    filters_by_domain: bool = False
    """`filter_domains` gives a domain the code that `filter_columns` gives each of its rows."""

    scores_by_domain: bool = False
    """`score_domains` gives a domain the score that `score_columns` gives each of its rows, and normalizing depends on
    which scores there are, not on how many nodes have them."""

    filters_under_load: bool = False
    """The filter's answer for a row depends on the pods there only by how much all of them take together, and it can be
    asked under any such load (`resources_read`, `load_limits`, `filter_loaded_columns`).
    """

    filters_by_affecting_pods: bool = False
    """The filter's answer for a row changes with a pod that comes or goes only if `is_affected_by` is true of that pod;
    with `filters_under_load`, only then or with the load of the row.
    """

    ignores: frozenset[str] = frozenset()
    """What PreFilter and PreScore never look at in a pod: `REQUESTS` (its containers' resources, those of the pod,
    overhead), `LABELS`, or both. Pods that differ in nothing else share these answers. The names are those of
    `berth.state.pod_info`."""

    pre_filter_is_pure: Purity = False
    """PreFilter's answer depends on the pod's shape alone (namespace, labels, owners, spec), and it leaves the
    CycleState alone: it is asked once for each shape. A function says for which pods this holds."""

    pre_score_is_pure: Purity = False
    """The same for PreScore, whose answer is also the same whichever nodes are left."""

    pre_filter_has_version: bool = False
    """Having skipped a pod, PreFilter skips all of its shape while `pre_filter_version(pod)` stays the same; None
    promises nothing. It is made from `objects.version(…)` of kinds and `cache.index.terms_version`.
    """

    pre_score_has_version: bool = False
    """The same for PreScore and `pre_score_version(pod)`."""

    score_when_skipped: int | None = None
    """What every node gets, 0 to 100, when PreScore skips the plugin; None for no score at all."""

    idle_after_skip: bool = False
    """Reserve, Unreserve, PreBind and its pre-flight have nothing to do with a pod that PreFilter skipped."""

    binds_plainly: bool = False
    """Bind requests the pod's Binding, returns the result, and does nothing else."""

    hints_by_shape: bool = False
    """Whether an event helps a pod depends only on the event, the cluster's objects and the pod's shape: queueing hints
    are asked about one pod of a shape. They are always asked about the pod that the event itself concerns, so testing
    `new.uid == pod.uid` is allowed.
    """

    permits_groups: bool = False
    """Permit's Wait means that too few members of the pod's group have a place: in the cycle of a group, no member goes
    on until it approves one.
    """

    gates_preemptors: bool = False
    """PreEnqueue rejects a pod only while room is being made for it: a pod gated in this way keeps its nomination."""

    points: frozenset[ExtensionPoint] | None = None
    """The extension points that the plugin takes part in, if fewer than its methods suggest: a plugin of an older
    generation inherits methods that its release did not have.
    """


NO_PROMISES = Promises()

IN_TREE_PROMISES: Final = frozenset(Promises.__struct_fields__) - {
    "filter_depends_on",
    "score_depends_on",
    "filters_by_affecting_pods",
    "hints_by_shape",
}
"""Promises, and by them the forms that go with one, which only Berth's own plugins make.

They follow what the engine needs, so they are not in `berth.plugin` and not kept stable for the plugins of others.
"""


def wrong_values(promises: Promises) -> Iterator[str]:
    """Yield what is wrong with the values of promises, each as the rest of a sentence about the class.

    The struct itself does not check. A misspelt name would promise less, or more, than its author intends.
    """
    values = msgspec.structs.asdict(promises)
    for field in ("filter_depends_on", "score_depends_on"):
        value = values[field]
        expected = f"promises {field}={value!r}, but a frozenset of Dependency and Objects is expected"
        if not isinstance(value, frozenset):
            yield f"{expected}: write {field}=frozenset({{Dependency.NODE}})"
        elif odd := [each for each in value if not _is_dependency(each)]:
            known = ", ".join(f"Dependency.{each.name}" for each in Dependency)
            yield f"{expected}: {', '.join(sorted(map(repr, odd)))} is none of {known} and Objects((KIND, ...))"
    for field, default in msgspec.structs.asdict(NO_PROMISES).items():
        value = values[field]
        may_be_function = field.endswith("_is_pure") and callable(value)
        if isinstance(default, bool) and not isinstance(value, bool) and not may_be_function:
            yield f"promises {field}={value!r}, which is neither True nor False"
    if not isinstance(promises.ignores, frozenset) or not promises.ignores <= {REQUESTS, LABELS}:
        yield f"promises ignores={promises.ignores!r}, but a frozenset of REQUESTS and LABELS is expected"
    is_points = isinstance(promises.points, frozenset) and all(isinstance(e, ExtensionPoint) for e in promises.points)
    if promises.points is not None and not is_points:
        yield f"promises points={promises.points!r}, but a frozenset of extension points is expected"
    whole = promises.score_when_skipped
    if whole is not None and (isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole <= 100):
        yield f"promises score_when_skipped={whole!r}, but an int from 0 to 100, or None, is expected"


def _is_dependency(value: object) -> bool:
    if isinstance(value, Objects):
        return isinstance(value.kinds, tuple) and all(isinstance(kind, str) for kind in value.kinds)
    return isinstance(value, Dependency)


def promises_of(plugin_class: type) -> Promises:
    """Return what a class itself promises; what its bases promise does not count."""
    promises = vars(plugin_class).get("promises", NO_PROMISES)
    if not isinstance(promises, Promises):
        raise TypeError(f"{plugin_class.__qualname__}.promises is {promises!r}, not a Promises")
    return promises
