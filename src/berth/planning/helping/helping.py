"""What would help a pod: the whole search, from the pod and the cluster to `Help`."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from berth.api.pod import Pod
from berth.planning.helping.adding import Adding, missing_objects
from berth.planning.helping.combining import Combining
from berth.planning.helping.freeing import other_objects
from berth.planning.helping.gathering import Gathered, gather
from berth.planning.helping.leaving import Gone, Leaving, change_of, higher_priority, is_kept
from berth.planning.helping.needs import NeedSource, Question
from berth.planning.helping.proving import ChangeProver, FilterAnswer, TrialsUsedUpError
from berth.planning.helping.result import Awaited, Change, Help
from berth.planning.helping.sources import SOURCES
from berth.planning.helping.waiting import at_permit, awaited, is_never
from berth.planning.helping.words import names_in_words
from berth.simulation.cluster import SimulatedCluster

EMPTY: Mapping[str, str] = MappingProxyType({})
MAX_MEMBERS = 500
"""Of a group so many other members are placed, to see whether the pod would have to wait for them."""
MAX_TRIALS = 2500
"""How often the filters are asked at most, about one pod: one answer takes a millisecond or two at 5,000 nodes."""


def what_would_help(
    cluster: SimulatedCluster,
    pod: Pod,
    *,
    sources: Sequence[NeedSource] = SOURCES,
    ending: Mapping[str, str] = EMPTY,
    max_trials: int = MAX_TRIALS,
    is_stopped: Callable[[], bool] | None = None,
) -> Help:
    """Return the least changes after which a pod fits, each proven on the cluster, which is as before afterwards.

    The pod need not be in the cluster. Where it runs or fits already, that is said and nothing is looked for. `ending`
    says when pods (by `namespace/name`) end by themselves, in words. `is_stopped` is called before each
    trial, and ends the search where it says so. Raises ValueError where the pod's PriorityClass does not exist.
    """
    prover = ChangeProver(cluster, max_trials, is_stopped)
    question = Question(prover, pod)
    state = cluster.core.cache.state_of(pod.metadata.uid)
    if state is not None or _is_running(cluster, pod):
        node = cluster.core.cache.table.names[state.row] if state is not None else pod.spec.node_name
        return Help(pod.key, "runs", f"it runs on {node}, and needs no help", fits_on=(node,))
    answer = prover.ask(question.info)
    if answer.is_yes:
        return _fitting(prover, question, answer, sources, ending)
    return _Search(prover, question, answer, sources, ending).run()


def _is_running(cluster: SimulatedCluster, pod: Pod) -> bool:
    known = cluster.objects.get(("Pod", pod.key))
    return known is not None and known.metadata.uid == pod.metadata.uid and bool(known.spec.node_name)


def _fitting(
    prover: ChangeProver,
    question: Question,
    answer: FilterAnswer,
    sources: Sequence[NeedSource],
    ending: Mapping[str, str],
) -> Help:
    """Tell of a pod that has nodes to go to: it needs no help, unless Permit would hold it back there."""
    names, count = answer.node_names, int(question.valid.sum())
    where = f"it fits on {names_in_words(names, count)}"
    with at_permit(prover, question, _pending_members(prover, question)) as held:
        if held.said is None:
            return Help(question.pod.key, "fits", f"{where}, and needs no help", fits_on=names, trials=prover.trials)
        message = f"{where}, but {held.said}"
        found = Help(question.pod.key, "waits", message, fits_on=names, trials=prover.trials)
        if held.without_place is None:
            return found
        other = held.without_place.key
        asked = Question(prover, held.without_place)
        helped = _Search(prover, asked, prover.ask(asked.info), sources, ending).run()
    note = f"the changes are for {other} of its group, which has no place beside the others"
    return msgspec.structs.replace(
        helped, pod=found.pod, state="waits", message=message, fits_on=names, notes=(note, *helped.notes)
    )


def _pending_members(prover: ChangeProver, question: Question) -> list[Pod]:
    """Return the other pods of the pod's group that have no node."""
    group = question.info.spec.scheduling_group
    if group is None:
        return []
    return [
        pod
        for pod in prover.cluster.pods.values()
        if pod.spec.scheduling_group == group
        and pod.metadata.namespace == question.info.namespace
        and not pod.spec.node_name
        and pod.metadata.uid != question.pod.metadata.uid
    ][:MAX_MEMBERS]


class _Search:
    """One search, step by step; each step keeps what it has found when the trials are used up."""

    __slots__ = ("_answer", "_ending", "_gathered", "_gone", "_notes", "_prover", "_question", "_sources", "_waits",
                 "changes", "is_complete", "never")  # fmt: skip

    def __init__(
        self,
        prover: ChangeProver,
        question: Question,
        answer: FilterAnswer,
        sources: Sequence[NeedSource],
        ending: Mapping[str, str],
    ) -> None:
        self._prover = prover
        self._question = question
        self._answer = answer
        self._sources = sources
        self._ending = ending
        self._gathered = Gathered((), ())
        self._gone: Gone | None = None
        self._waits: list[Awaited] = []
        self._notes: list[str] = []
        self.changes: list[Change] = []
        self.never = False
        self.is_complete = True

    def run(self) -> Help:
        """Return what was found."""
        for step in (self._gather, self._combine, self._add, self._free, self._raise, self._judge, self._wait):
            try:
                step()
            except TrialsUsedUpError:
                self.is_complete = False
        return Help(
            pod=self._question.pod.key,
            state="pending",
            message=self._answer.message,
            changes=tuple(sorted(self.changes, key=lambda change: (change.cost, change.what))),
            never=self.never,
            waits_for=tuple(self._waits),
            said=self._gathered.said,
            notes=tuple(self._notes),
            trials=self._prover.trials,
            is_complete=self.is_complete,
        )

    def _gather(self) -> None:
        self._gathered = gather(self._question, self._sources)

    def _combine(self) -> None:
        combining = Combining(self._question, self._gathered.needs)
        try:
            combining.run()
        finally:
            self.changes += combining.found
            self.is_complete &= combining.is_complete

    def _add(self) -> None:
        changes, notes = missing_objects(self._question)
        self.changes += changes
        self._notes += notes
        self.changes += other_objects(self._question)
        if self._answer.refusal is not None:
            return  # no node has been found wanting
        adding = Adding(self._question, self._gathered.needs)
        node = adding.node()
        self.is_complete &= adding.is_complete
        if node is not None:
            self.changes.append(node)

    def _free(self) -> None:
        if self._answer.refusal is not None:
            return
        leaving = Leaving(self._question, self._gathered.needs, self._answer)
        try:
            leaving.run()
        finally:
            self._gone = leaving.best
            self._note_gone(leaving)

    def _note_gone(self, leaving: Leaving) -> None:
        best, fewest = leaving.best, leaving.fewest
        if best is not None and best.breaks:
            names = names_in_words([pod.key for pod in best.pods])
            self._notes.append(
                f"it would fit if {names} left, but a disruption budget stands against {names_in_words(best.breaks)}"
            )
        for gone in dict.fromkeys((best, fewest)):
            if gone is not None and not gone.breaks:
                self.changes.append(change_of(gone))

    def _raise(self) -> None:
        if self._answer.refusal is not None:
            return
        change = higher_priority(self._question)
        if change is not None:
            self.changes.append(change)

    def _judge(self) -> None:
        is_free = self._gone is not None and not any(is_kept(pod) for pod in self._gone.pods)
        self.never = not is_free and is_never(self._question)

    def _wait(self) -> None:
        plugins = sorted({need.plugin for need in self._gathered.needs if need.plugin})
        refusal = self._answer.refusal
        if refusal is not None and refusal.plugin:
            plugins = [refusal.plugin]
        gone = None if self._gone is None or self._gone.breaks else self._gone
        self._waits += awaited(self._question, self._answer, plugins, gone, self._ending)
