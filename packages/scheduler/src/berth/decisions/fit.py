"""Whether a pod or workload fits now: on which nodes, or why on none. Nothing is changed by asking.

The answer is that of the next scheduling cycle, as `berth explain` would give it afterwards, except that the first of
equally good nodes is named instead of a random one, extenders are not asked, and no pod is preempted. Used by the
scheduler's endpoint `/fit`, the page, and the library.
"""

import time
from collections import Counter
from collections.abc import Callable

import msgspec

from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.questions import choose, decision_of, search_beside
from berth.cycle.attempt import Attempt
from berth.cycle.schedule import Search
from berth.decisions.by_plugins import rejection_details
from berth.decisions.explanation import NAMES_SHOWN, TOP_NODES, Explanation, explain
from berth.decisions.fit_question import FitManifestError, FitQuestion
from berth.decisions.named_in_vain import named_in_vain
from berth.framework.blame import contained, described
from berth.state.pod_info import PodInfo

MAX_REPLICAS = 1000
REPLICAS_S = 0.2
"""How long to place replicas one after another while cycles wait; a pod takes about a millisecond."""


class FittingReplicas(msgspec.Struct, frozen=True, rename="camel"):
    """How many pods of a workload would find a place one after the other."""

    wanted: int
    placed: int
    is_complete: bool
    """False if not all were tried: there was no time for more, or there are too many."""
    nodes: dict[str, int]
    """How many of them go to which node."""
    message: str = ""
    """Why the next one has no place, in the words of its condition."""


class Fit(msgspec.Struct, frozen=True, rename="camel"):
    """Whether a pod fits, and, for a workload, how many do."""

    kind: str
    name: str
    """`namespace/name`."""
    fits: bool
    """Whether all pods in question fit: for a workload all replicas, if these were counted to the end."""
    decision: Explanation
    """The decision about one pod. Its node is the first of the best."""
    replicas: FittingReplicas | None = None
    notes: tuple[str, ...] = ()
    """What the answer leaves out, in sentences."""


def fit(
    core: Core,
    question: FitQuestion,
    *,
    all_nodes: bool = False,
    replicas_s: float = REPLICAS_S,
    clock: Callable[[], float] = time.monotonic,
) -> Fit:
    """Answer from the cluster as it is; no cycle of the core may be open.

    Lists TOP_NODES of the nodes that fit, unless `all_nodes` are wanted. Replicas are counted for at most `replicas_s`.
    Raises `FitManifestError` for a pod of another scheduler.
    """
    until = clock() + replicas_s
    pod = core.intake.info(question.pod)
    if pod.profile_name not in core.profiles:
        names = ", ".join(core.profiles)
        raise FitManifestError(f"{pod.profile_name!r} is another scheduler; asked can be {names}", "spec.schedulerName")
    search = search_beside(core)
    attempt = _attempt(core, pod, search)
    told = _explained(core, attempt, all_nodes=all_nodes)
    notes = list(question.notes)
    if attempt.profile.extenders:
        notes.append("extenders were not asked")
    obstacle = _not_counted(attempt, question)
    reserving = {plugin.name for plugin in attempt.profile.reserve(attempt.state)}
    attempt.found.release_columns()
    replicas = None
    if question.replicas is not None and told.node is None:
        message = told.message if question.replicas else ""
        replicas = FittingReplicas(question.replicas, 0, is_complete=True, nodes={}, message=message)
    elif question.replicas is not None and not obstacle and not reserving:
        replicas = _place(core, question, question.replicas, search_beside(core), lambda: clock() >= until)
    elif question.replicas is not None:
        why = obstacle or f"{', '.join(sorted(reserving))} would reserve something for each"
        notes.append(f"asked was about one pod, and not about {question.replicas}: {why}")
    fits = told.node is not None if replicas is None else replicas.placed == replicas.wanted
    return Fit(question.kind, question.name, fits, told, replicas, tuple(notes))


def _attempt(core: Core, pod: PodInfo, search: Search) -> Attempt:
    """A plugin's bug becomes the outcome, as in a cycle."""
    return choose(core, pod, search=search, on_bug=lambda raised: described(contained(raised)))


def _explained(core: Core, attempt: Attempt, *, all_nodes: bool) -> Explanation:
    decision = decision_of(core, attempt)
    everything = decision.node_count if all_nodes else 0
    told = explain(
        decision,
        top=max(TOP_NODES, everything),
        names_shown=max(NAMES_SHOWN, everything),
        table=core.cache.table,
        details=rejection_details(decision, attempt.profile),
        missing=named_in_vain(core, decision.pod),
    )
    if told.node is None:
        return msgspec.structs.replace(told, uid="")
    said = f"{told.pod} fits on {told.feasible_count} of {told.node_count} nodes, best on {told.node}"
    return msgspec.structs.replace(told, uid="", summary=said)


def _not_counted(attempt: Attempt, question: FitQuestion) -> str:
    """Return why placing replicas one after another would not give the right count; empty if it does."""
    if question.pod.spec.scheduling_group is not None:
        return "it is one of a pod group, which is placed as a whole"
    if any(plugin.name not in attempt.profile.plugins_that_permit_groups for plugin in attempt.profile.permit):
        return "Permit plugins would have a say"
    return ""


def _place(
    core: Core, question: FitQuestion, wanted: int, search: Search, is_late: Callable[[], bool]
) -> FittingReplicas:
    """Assume pods one after the other, and take them back.

    None of them passes Reserve, so no plugin ever hears of them, and the cache forgets them last first, which leaves
    the pods of each node in their order.
    """
    assumed: list[str] = []
    nodes: Counter[str] = Counter()
    message, is_stopped = "", False
    try:
        while len(assumed) < wanted and not message:
            # The first one is known to have a place, so one is placed however late it is.
            if assumed and (is_stopped := len(assumed) >= MAX_REPLICAS or is_late()):
                break
            pod = core.intake.info(_replica(question, len(assumed)))
            attempt = _attempt(core, pod, search)
            row, message = attempt.outcome.chosen_row, attempt.outcome.message
            attempt.found.release_columns()
            if row is None:
                break
            node_name = core.cache.table.names[row]
            core.cache.assume(pod, node_name)
            assumed.append(pod.uid)
            nodes[node_name] += 1
    finally:
        for uid in reversed(assumed):
            core.cache.forget(uid)
    return FittingReplicas(wanted, len(assumed), not is_stopped, dict(nodes), message)


def _replica(question: FitQuestion, number: int) -> Pod:
    pod = question.pod
    name = f"{pod.metadata.name}-{number}"
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{number}")
    return msgspec.structs.replace(pod, metadata=metadata)
