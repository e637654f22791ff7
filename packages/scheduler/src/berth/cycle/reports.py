"""Reports attempts: each decision and each bug goes to the trace and to the observer."""

from berth.cycle.attempt import Attempt
from berth.cycle.decision import Trace
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.instrument import Instrument
from berth.framework.blame import out_of_budget, status_of
from berth.framework.status import Status
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable


class Reporter:
    """Tells the trace and the observer how attempts ended."""

    __slots__ = ("_dispatcher", "_table", "instrument", "trace")

    def __init__(self, trace: Trace, table: NodeTable, dispatcher: Dispatcher, instrument: Instrument) -> None:
        self.trace = trace
        self.instrument = instrument
        self._table = table
        self._dispatcher = dispatcher

    def record(self, attempt: Attempt, queued: QueuedPod, seconds: float, *, is_fresh: bool = False) -> None:
        """Keep what an attempt decided, and tell the observer, with how long it took.

        `is_fresh` says that no other pod was tried since: columns that are repaired from pod to pod still hold what the
        attempt read, and an observer may read them too while it is being told.
        """
        decision = self.trace.note(attempt, self._table, self._dispatcher.now(), queued.attempts)
        decision.fresh = attempt.found if is_fresh else None
        self.instrument.decided(decision, seconds)
        decision.fresh = None  # the decision is kept; what it was found in is not
        self.tell_failed_calls(attempt)

    def tell_failed_calls(self, attempt: Attempt, verb: str = "") -> None:
        """Tell the observer about failed calls to extenders, of one verb or of all so far."""
        for asked in attempt.state.asked:
            if asked.problem and verb in ("", asked.verb):
                self.instrument.extender_failed(attempt.pod, asked)

    def broke(self, pod: PodInfo, bug: Exception) -> Status:
        """Report a bug, most likely in a plugin, that ended an attempt; return it as an error status.

        Using up the attempt's budget of work ends it in the same way, but is no bug.
        """
        if out_of_budget(bug) is None:
            self.instrument.broke(pod, bug)
        return status_of(bug)
