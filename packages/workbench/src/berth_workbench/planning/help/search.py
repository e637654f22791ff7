"""What would help a pod: the whole search, from the pod and the cluster to `Help`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from berth.api.near_names import nearest
from berth.api.pod import Pod
from berth_workbench.planning.ends import KnownEnds
from berth_workbench.planning.help.additions import MOST_NODES, add_missing_objects, add_nodes
from berth_workbench.planning.help.consequences import Consequences
from berth_workbench.planning.help.departures import Leaving, higher_priorities
from berth_workbench.planning.help.edits import edit_nodes, edit_pod
from berth_workbench.planning.help.filters import FilterAnswer, FilterQuestions
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.group import Group, groups_of
from berth_workbench.planning.help.lacks import UNLABELLED, lacks_of, parts_of
from berth_workbench.planning.help.needs import NeedSource, PodQuestion
from berth_workbench.planning.help.objects import change_objects, fewer_replicas, places_apart
from berth_workbench.planning.help.prospects import at_permit, awaited, is_never, most_at_once
from berth_workbench.planning.help.result import Awaited, Help, Lack
from berth_workbench.planning.help.sources import SOURCES, gather
from berth_workbench.planning.help.standing import MAX_MEMBERS
from berth_workbench.planning.help.words import names_in_words
from berth_workbench.planning.whatif import NO_GROUPS
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.gangs import Gang, declared_gang
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.simulation.workloads import claim_templates
from berth_workbench.snapshot.documents import Document

EMPTY: Mapping[str, str] = MappingProxyType({})
MAX_TRIALS = 2500
"""How often the filters are asked at most, about one pod: one answer takes a millisecond or two at 5,000 nodes."""
BESIDE_AT_MOST = 500
"""Of more pods that wait beside those asked about none is tried with each change: that would take minutes."""
IN_PARTS_AT_MOST = 100_000
"""The same of members of gangs that keep to one part of the cluster, times nodes: they are tried in each part."""
LEFT_OUT = "{count} other pods that wait were left out of what was tried; they may take the room first"
GROUPS_AT_MOST = 2
"""So many workloads are helped where nobody has asked about a certain one and many pods wait."""
TRIALS_OF_ALL = 10_000
"""How often the filters are asked at most for all workloads together, where nobody has asked about a certain one."""


def what_would_help(
    cluster: SimulatedCluster,
    pod: Pod,
    *,
    documents: Iterable[Document] = (),
    is_there: bool | None = None,
    sources: Sequence[NeedSource] = SOURCES,
    ending: Mapping[str, str] = EMPTY,
    max_trials: int = MAX_TRIALS,
    watch: WorkWatch = UNWATCHED,
) -> Help:
    """Return the least changes after which a pod fits, each proven on the cluster, which is as before afterwards.

    A pod that has a controller gets its answer together with all pods of its workload. `documents` are those that the
    cluster was made of: they say how workloads are rolled out. The pod need not be in the cluster; `is_there` says so
    of one that was put there to be asked about. Where it runs or fits already, that is said and nothing is looked for.
    `ending` says when pods (by `namespace/name`) end by themselves, in words. `watch` is told of each trial, and
    may stop the search. Raises ValueError where the pod's PriorityClass does not
    exist.
    """
    filters = FilterQuestions(cluster, max_trials, watch)
    cluster.core.cache.make_room(MOST_NODES)  # what is found of a need is held against what is found later

    def searched(question: PodQuestion, consequences: Consequences) -> Help:
        return _Search(question, filters.ask(question.info), sources, ending, consequences).run()

    documents = tuple(documents)
    found = _helped(filters, pod, documents, is_there, searched)
    if found.state == "pending" and documents:
        found = msgspec.structs.replace(found, missing=(*_missing_templates(pod, documents), *found.missing))
    notes = (EXTENDERS_LEFT_OUT,) if cluster.leaves_out_extenders and found.state != "runs" else ()
    return msgspec.structs.replace(found, notes=(*found.notes, *notes))


def _missing_templates(pod: Pod, documents: Iterable[Document]) -> Iterator[str]:
    """Yield the templates of claims that nothing can be made of; the scheduler does not follow them, and only waits."""
    names = {name for key in claim_templates(documents) for namespace, name in [key.split("/")]
             if namespace == pod.metadata.namespace}  # fmt: skip
    made = {each.name for each in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        name = use.resource_claim_template_name
        if name and name not in names and use.name not in made:
            yield f"the ResourceClaimTemplate {name} does not exist{nearest(name, names)}"


def _helped(
    filters: FilterQuestions,
    pod: Pod,
    documents: Iterable[Document],
    is_there: bool | None,
    searched: Callable[[PodQuestion, Consequences], Help],
) -> Help:
    question, cluster = PodQuestion(filters, pod), filters.cluster
    known = cluster.objects.get(("Pod", pod.key))
    if known is not None and known.metadata.uid == pod.metadata.uid and (node := known.spec.node_name):
        return Help(pod.key, "runs", f"it runs on {node}, and needs no help", fits_on=(node,))
    answer = filters.ask(question.info)
    if answer.is_yes and declared_gang(cluster, pod) is None:
        fitting = _fitting(filters, question, answer)
        if fitting.state == "waits" or not pod.metadata.owner_references:
            return fitting
    consequences = Consequences(filters, documents)
    with _few_beside(cluster, pod) as left_out:
        found = _helped_group(filters, question, consequences, answer, is_there, searched)
    if left_out and found.state == "pending":
        found = msgspec.structs.replace(found, notes=(*found.notes, LEFT_OUT.format(count=left_out)))
    return found


@contextmanager
def _few_beside(cluster: SimulatedCluster, pod: Pod) -> Iterator[int]:
    """Have other pods that wait left out for the length of a block where they are many; yield how many they are."""
    waiting = [each for each in cluster.pods.values() if not each.spec.node_name and is_active(each)]
    own = next((of for of in groups_of(cluster, waiting).values() if any(each.key == pod.key for each in of)), [])
    mine = {each.metadata.uid for each in (*own, pod)}
    others = {each.metadata.uid: each for each in waiting if each.metadata.uid not in mine}
    if len(others) <= BESIDE_AT_MOST:
        tried = {uid: each for uid, each in others.items() if (gang := declared_gang(cluster, each)) and gang.topology}
        others = tried if len(tried) * len(cluster.nodes) > IN_PARTS_AT_MOST else {}
    if not others:
        yield 0
        return
    cluster.begin()
    for uid in others:
        cluster.core.queue.delete(uid)
    try:
        yield len(others)
    finally:
        cluster.undo()


def _helped_group(
    filters: FilterQuestions,
    question: PodQuestion,
    consequences: Consequences,
    answer: FilterAnswer,
    is_there: bool | None,
    searched: Callable[[PodQuestion, Consequences], Help],
) -> Help:
    pod = question.pod
    try:
        with consequences.of_group(pod, is_there=question.group.is_there if is_there is None else is_there):
            group = consequences.group
            if not group.waiting:
                return _told_of(group, _placed(pod, consequences.placed, filters.trials))
            found = _told_of(group, searched(PodQuestion(filters, group.pod, group), consequences))
            is_complete = found.is_complete and not consequences.is_cut
            return msgspec.structs.replace(found, parts=parts_of(filters, group), is_complete=is_complete)
    except StoppedError:
        return Help(pod.key, "pending", answer.message, trials=filters.trials, is_complete=False)


def _placed(pod: Pod, placed: Mapping[str, str], trials: int) -> Help:
    """Tell of pods that get a place by themselves, once the scheduler has come to all that wait."""
    where = tuple(sorted(set(placed.values())))
    return Help(pod.key, "fits", f"it fits on {names_in_words(where)}, and needs no help", fits_on=where, trials=trials)


def _told_of(group: Group, found: Help) -> Help:
    """Say whom an answer is about."""
    if group.gang is not None:
        found = _told_of_gang(group, group.gang, found)
    elif group.owner is None:
        return found
    kind, key = group.owner or ("", "")
    return msgspec.structs.replace(
        found,
        workload=f"{kind}/{key}" if kind else "",
        pods=tuple(sorted(pod.key for pod in group.waiting)),
        replicas=group.size,
    )


def _told_of_gang(group: Group, gang: Gang, found: Help) -> Help:
    """Say for how many of a gang there is room, where that is too few."""
    placed, message = len(group.standing) + len(group.running), found.message
    since = min((each for pod in group.waiting if (each := pod.metadata.creation_timestamp)), default="")
    found = msgspec.structs.replace(
        found,
        group=f"PodGroup/{gang.key}",
        needed=gang.needed,
        needs_field=gang.field,
        together_in=gang.topology,
        part=group.parts[0].name if group.parts else "",
        since=since,
    )
    if len(group.standing) == MAX_MEMBERS:  # there may be room for more
        return found
    if found.state == "pending" and len(group.running) < gang.needed <= group.size:
        what = f"{placed} of {group.size} have a place, and none is bound before {gang.needed} have ({gang.field})"
        if gang.topology and not group.parts:
            message = UNLABELLED.format(key=gang.topology)
        message = f"{what}; {found.pod} has none beside them: {message}" if message else what
    return msgspec.structs.replace(found, message=message, have_place=placed)


def _fitting(filters: FilterQuestions, question: PodQuestion, answer: FilterAnswer) -> Help:
    """Tell of a pod that has nodes to go to: it needs no help, unless Permit would hold it back there."""
    names, count = answer.node_names, int(question.valid.sum())
    where = f"it fits on {names_in_words(names, count)}"
    held = at_permit(filters, question)
    if held:
        return Help(question.pod.key, "waits", f"{where}, but {held}", fits_on=names, trials=filters.trials)
    return Help(question.pod.key, "fits", f"{where}, and needs no help", fits_on=names, trials=filters.trials)


class _Search:
    """One search, step by step; each step keeps what it has found when the trials are used up."""

    __slots__ = ("_answer", "_ending", "_findings", "_lacks", "_leaving", "_most", "_never", "_question", "_sources",
                 "_too_few", "_waits")  # fmt: skip

    def __init__(
        self,
        question: PodQuestion,
        answer: FilterAnswer,
        sources: Sequence[NeedSource],
        ending: Mapping[str, str],
        consequences: Consequences,
    ) -> None:
        self._question = question
        self._answer = answer
        self._sources = sources
        self._ending = ending
        self._findings = HelpFindings(question, consequences)
        self._leaving = Leaving(self._findings, answer)
        self._never = False
        self._most: int | None = None
        self._lacks: tuple[Lack, ...] = ()
        self._too_few = ""
        self._waits: list[Awaited] = []

    def run(self) -> Help:
        """Return what was found."""
        found, question = self._findings, self._question
        gang = question.group.gang
        if gang is not None and len(question.group.running) < gang.needed <= question.group.size:
            self._lacks = lacks_of(question.filters, question.group, self._answer)
        steps: list[Callable[[], object]] = [
            self._gather,
            lambda: edit_pod(found),
            lambda: edit_nodes(found),
            lambda: add_missing_objects(found),
            lambda: change_objects(found),
        ]
        if self._answer.refusal is None:  # it is nodes that are wanting
            steps += [
                lambda: add_nodes(found),
                self._leaving.run,
                self._move,
                lambda: found.add_first(higher_priorities(question)),
                lambda: fewer_replicas(found),
            ]
        for step in (*steps, self._judge, self._wait):
            try:
                step()
            except StoppedError:
                found.is_complete = False
        return Help(
            pod=question.pod.key,
            state="pending",
            message=self._answer.message,
            missing=tuple(each.sentence for each in found.in_vain),
            changes=tuple(sorted(found.changes or found.partial, key=lambda change: (change.cost, change.what))),
            never=self._never,
            most=self._most,
            too_few=self._too_few,
            lacks=self._lacks,
            waits_for=tuple(self._waits),
            said=found.said,
            notes=tuple(found.notes),
            trials=question.filters.trials,
            is_complete=found.is_complete,
        )

    def _gather(self) -> None:
        filters, pod, found = self._question.filters, self._question.pod, self._findings
        found.notes += missing_resources(filters.cluster, (pod,))
        named = pod.spec.scheduling_group
        if named is not None and not filters.profile(self._question.info).plugins_that_permit_groups:
            found.notes.append(f"it names the pod group {named.pod_group_name}, but {NO_GROUPS}")
        found.needs, found.said = gather(self._question, self._sources)
        found.is_complete &= not any(need.is_cut for need in found.needs)

    def _move(self) -> None:
        found = self._findings
        change = found.add_first(found.consequences.moves())
        if change is not None:  # that they just leave is the same, and says less
            found.changes = [each for each in found.changes if each.kind != "podsGone" or each.patch != change.patch]

    def _judge(self) -> None:
        self._never = self._leaving.pod is None and is_never(self._question)
        if not self._never and self._question.group.size > 1:
            places = places_apart(self._findings)
            most = most_at_once(self._question)
            if places is not None and (most is None or places[0] <= most):
                most, self._too_few = places
            self._never, self._most = most is not None, most

    def _wait(self) -> None:
        plugins = sorted({need.plugin for need in self._findings.needs if need.plugin})
        refusal = self._answer.refusal
        if refusal is not None and refusal.plugin:
            plugins = [refusal.plugin]
        gone = None if self._leaving.is_forbidden else self._leaving.pod
        self._waits += awaited(self._question, self._answer, plugins, gone, self._ending)


# --- all that is pending ---------------------------------------------------------------------------------------------


def stay_pending(site: Site, namespace: str = "") -> list[str]:
    """Return a pod of each group of pods that stay pending, the most important first, then the largest group.

    Whoever gets a place by itself once the scheduler comes to it needs no help, unless it is others that pay for it;
    where many wait, the scheduler has been given its time, and they are taken as they are.
    """
    if not _are_many(site.cluster):
        with Rehearsal(site) as settling:
            site.settle()
            if not site.cluster.evictions:
                settling.keep()
    pods = (pod for pod in site.cluster.pods.values() if not pod.spec.node_name and is_active(pod))
    groups = groups_of(site.cluster, (pod for pod in pods if namespace in ("", pod.metadata.namespace)))
    firsts = sorted(groups.values(), key=lambda group: (-(group[0].spec.priority or 0), -len(group), group[0].key))
    return [group[0].key for group in firsts]


def _are_many(cluster: SimulatedCluster) -> bool:
    return sum(not pod.spec.node_name and is_active(pod) for pod in cluster.pods.values()) > BESIDE_AT_MOST


def help_for_all(situation: Situation, watch: WorkWatch = UNWATCHED, namespace: str = "") -> Iterator[Help]:
    """Yield what would help each workload that stays pending, up to a bound, and until somebody asks for an end."""
    site = situation.site(watch)
    documents, left = situation.snapshot.documents, TRIALS_OF_ALL
    ending = KnownEnds(documents).in_words(site.cluster.pods.values())
    most = GROUPS_AT_MOST if _are_many(site.cluster) else None
    for key in stay_pending(site, namespace)[:most]:
        if left <= 0 or watch.is_stopped:
            return
        pod, trials = site.cluster.objects["Pod", key], min(left, MAX_TRIALS)
        found = what_would_help(
            site.cluster, pod, documents=documents, ending=ending, max_trials=trials, watch=watch.within()
        )
        left -= found.trials
        yield found
