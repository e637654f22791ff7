"""Tries to place the members of a group one after the other, each seeing those before it as placed.

Nothing is bound here. Placed members are assumed and reserved, and `undo` takes all of that back; a trial that
succeeded either stays in effect or, if another one was made in between, is repeated with `redo`. Called by the group
cycle.

Rolling back is safe because the scheduling cycle stays open for the whole trial: no other pod is scheduled, no event is
taken in, and a binding cycle that runs alongside touches only its own assumed pod. Members are taken back in reverse
order, since a later member's reservation may build on an earlier one's, and each gets back the nomination it had.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import force_setattr

from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import undo
from berth.cycle.dispatcher import THROWN_IN
from berth.cycle.reports import Reporter
from berth.cycle.schedule import Search, schedule_pod
from berth.engine.profile import Permitted, Profile
from berth.engine.verdicts import Mask
from berth.framework.blame import contained
from berth.framework.effects import Steps
from berth.framework.status import Code, Status, error, unschedulable
from berth.framework.waiting_pods import of_one_node
from berth.framework.work_budget import WorkBudget
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

UNSCHEDULABLE = "pod group is unschedulable"
WAITS_FOR_PREEMPTION = "pod group is waiting for preemption to complete"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"


class TrialTools(NamedTuple):
    """The parts that a trial works with."""

    cache: Cache
    nominator: Nominator
    search: Search
    reporter: Reporter
    stopwatch: Callable[[], float]
    work: WorkBudget
    """The work budget of trying a group: all attempts and what-ifs of one group cycle share it."""

    def with_budget(self) -> "TrialTools":
        """Return the tools for one group cycle, with a fresh budget."""
        return self._replace(work=WorkBudget(self.work.limit))


class Member:
    """One pod of the group in a trial: its attempt, and its node, if any."""

    __slots__ = ("attempt", "needs_preemption", "node_name", "promised", "queued", "rejection", "seconds", "timeouts_s",
                 "waits", "waits_for")  # fmt: skip

    def __init__(self, queued: QueuedPod, attempt: Attempt) -> None:
        self.queued = queued
        self.attempt = attempt
        self.node_name = ""
        self.needs_preemption = False
        """Whether the node has room only once the attempt's victims are gone."""
        self.waits: Status | None = None
        """What Permit said, if the member must wait until others have a place."""
        self.waits_for: frozenset[str] = frozenset()
        """The plugins that said so."""
        self.timeouts_s: Mapping[str, float] = {}
        self.rejection: Status | None = None
        """Why Reserve or Permit denied the member its node."""
        self.promised = ""
        """The node it was nominated to before it was placed."""
        self.seconds = 0.0

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.attempt.pod

    def rejectors(self) -> tuple[set[str], set[str]]:
        """Return the plugins that rejected the member, and those that did so with Pending."""
        if self.rejection is not None:
            return ({self.rejection.plugin} if self.rejection.plugin else set()), set()
        diagnosis = self.attempt.outcome.diagnosis
        if diagnosis is None:
            return set(self.waits_for), set()
        return diagnosis.unschedulable_plugins | self.waits_for, set(diagnosis.pending_plugins)


class GroupTrial:
    """One try at placing a group, and its result."""

    def __init__(self, tools: TrialTools, profile: Profile, within: Mask | None = None) -> None:
        """`within` has the only rows to place the group on, if a placement is being tried."""
        self._tools = tools
        self._within = within
        self._profile = profile
        self.members: list[Member] = []
        """Those that were tried; fewer than there are if an error ended the trial."""
        self.status: Status | None = unschedulable(UNSCHEDULABLE)
        """None if the group can be placed as it is."""
        self.waits_for_preemption = False
        """Whether it can be placed once the victims of its members are gone."""
        self.unschedulable_plugins: set[str] = set()
        """The plugins that rejected the group as a whole."""
        self.pending_plugins: set[str] = set()
        self._placed: list[Member] = []

    @property
    def has_failed(self) -> bool:
        """Say whether an error, rather than a rejection, ended the trial."""
        return self.status is not None and not self.status.code.is_rejection

    def run(self, queued_pods: Sequence[QueuedPod], *, makes_room: bool) -> Steps[None]:
        """Try the pods in this order; whatever is placed stays placed."""
        refused: dict[int, Attempt] = {}  # by shape; until another member is placed, nothing changes for these
        try:
            for queued in queued_pods:
                tools = self._tools
                attempt = Attempt(self._profile, queued.pod, tools.stopwatch, within=self._within, work=tools.work)
                member = Member(queued, attempt)
                self.members.append(member)
                force_setattr(member.attempt.state, "skip_post_filter", not makes_room)
                shape = id(queued.pod.shape)
                attempt.alike = refused.get(shape)
                failure = yield from self._try(member)
                # Reserve may have changed what plugins answer, even where it was undone.
                if attempt.outcome.diagnosis is None or member.node_name or member.rejection is not None:
                    refused.clear()
                else:
                    refused.setdefault(shape, attempt)
                member.seconds = self._tools.stopwatch() - member.attempt.started
                if failure is not None:
                    self.status = error(OTHER_FAILED.format(failure))
                    return
            self._judge()
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Take back all that is placed, last first; `_placed` is exactly that, however the trial ended."""
        while self._placed:
            self._undo_last()

    def redo(self) -> Status | None:
        """After `undo`, place the same members again; return what prevents it, with nothing placed then."""
        for member in [member for member in self.members if member.node_name]:
            status = self._reserve(member)
            if status is not None:
                self.undo()
                return status
        return None

    def permit(self) -> Status | None:
        """Ask Permit again now that all have their places; return a rejection, with nothing placed then."""
        # The first members were told to wait for the others; now that these have places too, the wait is over.
        for member in self._placed:
            permitted = self._ask_permit(member)
            if isinstance(permitted, Status):
                self.undo()
                return permitted
            member.timeouts_s, member.attempt.permit_words = permitted.timeouts_s, permitted.words
        return None

    def stands(self) -> Sequence[Member]:
        """Hand over the members that are placed: they now belong to the caller, and `undo` does not touch them."""
        placed, self._placed = self._placed, []
        return placed

    def rejectors(self) -> tuple[set[str], set[str]]:
        """Return the plugins that rejected any member: what helps one member may help the group."""
        for member in self.members:
            self.add_rejectors(*member.rejectors())
        return self.unschedulable_plugins, self.pending_plugins

    def add_rejectors(self, unschedulable_plugins: Iterable[str], pending_plugins: Iterable[str]) -> None:
        """Note further plugins whose events may help the group."""
        self.unschedulable_plugins.update(unschedulable_plugins)
        self.pending_plugins.update(pending_plugins)

    def release_columns(self) -> None:
        """Drop the columns, which serve only to explain the attempts."""
        for member in self.members:
            member.attempt.found.release_columns()

    def _try(self, member: Member) -> Steps[str | None]:
        """Find a node for one member and place it there; return an error message if the whole group has to stop."""
        attempt = member.attempt
        try:
            yield from schedule_pod(self._tools.search, attempt)
        except BaseException as raised:  # a bug ends this group's trial only, not the scheduler
            bug = contained(raised, THROWN_IN)
            attempt.outcome = attempt.outcome.failed(self._tools.reporter.broke(member.pod, bug).message)
        outcome = attempt.outcome
        if outcome.error is not None:
            has_no_nodes = outcome.diagnosis is not None and not outcome.diagnosis.node_count
            # Without any nodes the member fits nowhere for now, which is no error of the group either.
            return None if has_no_nodes else outcome.error
        if outcome.chosen_row is not None:
            member.node_name = self._tools.cache.table.names[outcome.chosen_row]
        elif outcome.nominated_node_name:
            member.node_name, member.needs_preemption = outcome.nominated_node_name, True
        else:
            return None
        return self._place(member)

    def _place(self, member: Member) -> str | None:
        status = self._reserve(member)
        if status is None:
            permitted = self._ask_permit(member)
            if not isinstance(permitted, Status):
                member.waits_for = self._waits_for_others(permitted)
                member.waits = permitted.status if member.waits_for else None
                return None
            status = permitted
            self._undo_last()
        member.node_name, member.needs_preemption = "", False
        member.attempt.outcome = msgspec.structs.replace(member.attempt.outcome, chosen_row=None, victims=())
        if not status.code.is_rejection:
            member.attempt.outcome = member.attempt.outcome.failed(status.message)
            return status.message
        member.rejection = status
        return None

    def _reserve(self, member: Member) -> Status | None:
        """Assume a member on its node and reserve what it needs there; return a failure, with nothing left reserved."""
        tools, attempt = self._tools, member.attempt
        tools.cache.assume(member.pod, member.node_name)
        # A nomination to the node on which it is counted would make others see it there twice.
        member.promised = tools.nominator.node_of(member.pod.uid) or ""
        tools.nominator.withdraw(member.pod.uid)
        # Before Reserve: whatever that does, `undo` knows about the member.
        self._placed.append(member)
        try:
            status = self._profile.run_reserve(attempt.state, member.pod, member.node_name)
        except BaseException as raised:  # a plugin that breaks turns this member away, not the scheduler
            bug = contained(raised)
            status = tools.reporter.broke(member.pod, bug)
        if status is not None:
            self._undo_last()
            return of_one_node(status)
        return None

    def _undo_last(self) -> None:
        member = self._placed.pop()
        try:
            undo(self._tools.cache, member.attempt, member.node_name)
        except BaseException as raised:  # the members placed before it must still be taken back
            bug = contained(raised)
            self._tools.reporter.broke(member.pod, bug)
        self._tools.nominator.nominate(member.pod, member.promised)

    def _ask_permit(self, member: Member) -> Permitted | Status:
        try:
            permitted = self._profile.run_permit(member.attempt.state, member.pod, member.node_name)
        except BaseException as raised:  # a plugin that breaks turns this member away, not the scheduler
            bug = contained(raised)
            return self._tools.reporter.broke(member.pod, bug)
        if permitted.status is None or permitted.status.code is Code.WAIT:
            return permitted
        return of_one_node(permitted.status)

    def _waits_for_others(self, permitted: Permitted) -> frozenset[str]:
        """Return the plugins that wait for other members, rather than for something that the binding cycle can wait
        for.
        """
        return self._profile.plugins_that_permit_groups & permitted.timeouts_s.keys()

    def _judge(self) -> None:
        """Decide whether the group can be placed: if Permit lets a member through once enough others have been
        placed.
        """
        is_complete = any(member.node_name and member.waits is None for member in self.members)
        if not is_complete:
            return
        if any(member.needs_preemption for member in self.members):
            self.status, self.waits_for_preemption = unschedulable(WAITS_FOR_PREEMPTION), True
        else:
            self.status = None
