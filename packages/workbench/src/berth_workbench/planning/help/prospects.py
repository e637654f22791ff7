"""Whether a pod fits never or only not now, and what may let it in without anybody doing anything."""

from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

from berth.api.dra import ResourceClaimStatus
from berth.api.pod import Pod
from berth.api.selectors import SelectorError
from berth.core.questions import find
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import Reservations
from berth.decisions.explanation import waits_for
from berth.framework.blame import PluginBrokenError
from berth.framework.status import Status, error
from berth.framework.work_budget import OutOfBudgetError
from berth.state.pod_info import PodInfo
from berth_workbench.planning.capacity import count_by_node
from berth_workbench.planning.help.filters import FilterAnswer, FilterQuestions
from berth_workbench.planning.help.needs import PodQuestion
from berth_workbench.planning.help.result import Awaited
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.cluster import SimulatedCluster

NAMES_SHOWN = 3
MAX_AT_ONCE = 500
"""So many pods of one workload are placed to see whether there is a place for all of them."""


def is_never(question: PodQuestion) -> bool:
    """Say whether no node would take a pod whichever of the pods that may be evicted were gone.

    Decided on a second cluster with the same nodes and objects, and only those pods that belong to their nodes. What it
    may take some of the others for is not asked of the pod: to be spread among them, and to be beside one where one is.
    """
    filters, info = question.filters, question.info
    spec = msgspec.structs.replace(question.pod.spec, topology_spread_constraints=())
    try:
        wanted, namespaces = info.required_affinity_terms, filters.core.cache.index.namespaces
    except SelectorError:
        wanted = ()  # such terms match nobody
    running = (state.pod for state in filters.core.cache.states().values())
    if spec.affinity is not None and any(
        term.matches(pod, namespaces.get(pod.namespace, {})) for pod in running for term in wanted
    ):
        spec = msgspec.structs.replace(spec, affinity=msgspec.structs.replace(spec.affinity, pod_affinity=None))
    answer = FilterQuestions(_emptied(filters, question), 1).ask(
        msgspec.structs.replace(question.pod, spec=spec), is_whole=False
    )
    return not (answer.is_yes or answer.is_given_up)  # a search that was given up proves nothing


def most_at_once(question: PodQuestion) -> int | None:
    """Return how many pods of a workload have a place at most where all others that may be evicted are gone.

    None where all of them have, or where it cannot be proven that not all have: that the scheduler finds places for
    fewer proves nothing. A bound is counted of a pod that asks for amounts, labels and tolerations alone. It cannot be
    exceeded by pods that ask for more besides.
    """
    group = question.group
    if group.others or not group.owner:
        return None
    empty = _emptied(question.filters, question, frozenset(pod.metadata.uid for pod in group.running))
    for pod in group.running:
        if ("Pod", pod.key) in empty.objects:
            empty.send_back(pod.key)
    pods = (*group.waiting, *group.running)[:MAX_AT_ONCE]
    empty.add(pod for pod in pods if ("Pod", pod.key) not in empty.objects and not pod.spec.node_name)
    empty.settle()
    if all(empty.placements.get(pod.key) for pod in pods):
        return None
    for key in [key for key, pod in empty.pods.items() if not follows_its_node(pod)]:
        empty.delete("Pod", key)
    counted = count_by_node(empty.core, FilterQuestions(empty, 1).info(_plain(question.pod)))
    return counted.placed if counted is not None and counted.placed < group.size else None


def _plain(pod: Pod) -> Pod:
    """Return a pod that asks for no more than this one, and nothing of other pods."""
    affinity = pod.spec.affinity
    if affinity is not None:
        affinity = msgspec.structs.replace(affinity, pod_affinity=None, pod_anti_affinity=None)
    spec = msgspec.structs.replace(
        pod.spec,
        affinity=affinity,
        topology_spread_constraints=(),
        volumes=(),
        resource_claims=(),
        scheduling_group=None,
    )
    return Pod(metadata=msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid}~"), spec=spec)


def _emptied(filters: FilterQuestions, question: PodQuestion, staying: Container[str] = ()) -> SimulatedCluster:
    """Return the cluster without the pods that may be evicted."""
    cluster = filters.cluster
    states = filters.core.cache.states().values()
    stays = [state.pod for state in states if follows_its_node(state.pod.pod) or state.pod.uid in staying]
    kept = {pod.uid for pod in stays}
    gone = {state.pod.uid for state in states} - kept
    own = {pod.key for pod in question.group.waiting}
    objects = []
    for (kind, _), obj in cluster.objects.items():
        if kind == "Pod":
            if obj.spec.node_name and obj.metadata.uid not in kept:
                continue
            if not obj.spec.node_name and obj.key not in own:
                continue
        is_claim = kind == "ResourceClaim" and bool(obj.status.reserved_for)
        is_freed = is_claim and all(user.uid in gone for user in obj.status.reserved_for)
        objects.append(msgspec.structs.replace(obj, status=ResourceClaimStatus()) if is_freed else obj)
    return cluster.again(objects)


def at_permit(filters: FilterQuestions, question: PodQuestion) -> str:
    """Return what Permit, or Reserve, would hold against a pod that fits; empty for nothing."""
    core, info = filters.core, question.info
    with filters.search_as_it_was(), Reservations(core.cache) as placed:
        attempt = find(core, info)
        assert attempt.found.nodes is not None, "asked of a pod that fits"
        node_name = filters.table.names[int(attempt.found.nodes.row_array()[0])]
        attempt.found.release_columns()
        try:
            status = placed.add(attempt, node_name, asks_permit=False)
            if status is None:
                status = _permit(attempt, node_name)
        except (PluginBrokenError, OutOfBudgetError) as broken:
            status = error(str(broken))
        return "" if status is None else _told(status)


def _permit(attempt: Attempt, node_name: str) -> Status | None:
    permitted = attempt.profile.run_permit(attempt.state, attempt.pod, node_name)
    return None if permitted.status is None else permitted.status.by(", ".join(permitted.timeouts_s))


def _told(status: Status) -> str:
    return f"{status.plugin or 'Permit'} said: {status.message}"


def awaited(
    question: PodQuestion, answer: FilterAnswer, plugins: Iterable[str], gone: PodInfo | None, ending: Mapping[str, str]
) -> Iterator[Awaited]:
    """Yield what may happen by itself, or be done by others: pods that leave or end, then the events that count.

    `ending` says of pods, by `namespace/name`, when they will have ended at the latest, in words.
    """
    filters, is_alone = question.filters, len(question.group.waiting) < 2  # else it is not known to be enough for all
    terminating = [s.pod for s in filters.core.cache.states().values() if s.pod.is_terminating]
    if terminating:
        yield from _leaving(question, terminating, "being deleted")
    by_deadline = [s.pod for s in filters.core.cache.states().values() if s.pod.key in ending]
    if by_deadline:
        yield from _leaving(question, by_deadline, "which ends at its deadline", ending)
    nominated = filters.preempts(question.info.pod) if answer.refusal is None else None
    if nominated is not None:
        node, victims = nominated
        text = f"preemption, which frees {node} by evicting {_names(victims)}"
        yield Awaited(text, "DefaultPreemption", tuple(victims), is_enough=is_alone)
    if gone is not None and ends(gone):
        yield Awaited(f"{gone.key} to end", "", (gone.key,), is_enough=is_alone)
    for plugin, events in waits_for(filters.profile(question.info), plugins).items():
        for event in events:
            yield Awaited(f"{event} ({plugin})", plugin)


def ends(pod: PodInfo) -> bool:
    """Say whether a pod may end for good: no controller makes it again, but for what a Job has not done yet."""
    owners = [owner.kind for owner in pod.metadata.owner_references if owner.controller]
    return pod.is_terminating or owners in ([], ["Job"])


def _leaving(
    question: PodQuestion, pods: list[PodInfo], why: str, when: Mapping[str, str] | None = None
) -> Iterator[Awaited]:
    """Yield pods that leave anyway: the few that are enough, or else all of them together."""

    def is_enough_without(keys: Iterable[str]) -> bool:
        with question.filters.without(keys):
            return question.filters.ask(question.info).is_yes

    keys = tuple(sorted(pod.key for pod in pods if pod.uid != question.pod.metadata.uid))
    is_enough = is_enough_without(keys)
    for key in keys if is_enough and len(keys) <= MAX_MINIMISED else ():
        fewer = tuple(each for each in keys if each != key)
        keys = fewer if fewer and is_enough_without(fewer) else keys
    at = f", {when[keys[0]]}" if when and len(keys) == 1 else ""
    yield Awaited(
        f"{_names(keys)} to leave, {why}{at}", "", keys, is_enough=is_enough and len(question.group.waiting) < 2
    )


MAX_MINIMISED = 64
"""Of more pods that are leaving anyway it is not looked which of them are needed."""


def _names(keys: Iterable[str]) -> str:
    names = list(keys)
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more pod{'' if more == 1 else 's'}" if more > 0 else "")
