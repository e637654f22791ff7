"""Looks after bound pods that no watch confirms: after a while each is read from the API server, which says where it
is.

A pod whose Binding was answered stays assumed until the watch shows it on its node. If that never happens (the watch is
stuck, the event was lost, the Binding's answer was wrong), the pod would be counted there forever. So
`BindingConfirmer` notes each bound pod, and reads those that are still assumed after `BindingConfirmer.after_s`:

    on a node, ours or another ──→ taken in as if the watch had shown it
    on no node ──────────────────→ undone: its room is given back, and it is tried again
    gone ────────────────────────→ taken in as deleted
    cannot be read ──────────────→ read again later

Reading early does no harm: the API server's answer is newer than whatever the watch has yet to deliver, and an older
event about a pod that is already counted changes nothing.

Few pods are read at a time, and only so many a second, since after an outage thousands may be overdue while bindings
must go on. While reads fail, they are made less and less often.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec.structs import force_setattr

from berth.api.pod import Pod
from berth.cycle.attempt import Attempt
from berth.cycle.dispatcher import Dispatcher
from berth.cycle.instrument import Instrument
from berth.framework.effects import PodRead, PodRef, ReadPod, Steps, WaitUntil, call
from berth.framework.status import Status, error
from berth.state.cache import Cache, PodState
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

READS_AT_ONCE = 4
READ_SPACING_S = 0.05
"""At most twenty reads a second; the client-side rate limit, shared with bindings, is fifty a second by default."""
LONGEST_PAUSE_S = 60.0
"""Between failing reads; the first pause is a second, and each is twice the one before."""


class Bound(NamedTuple):
    """What it takes to undo a binding."""

    queued: QueuedPod
    attempt: Attempt
    node_name: str


Undo = Callable[[QueuedPod, Attempt, str, Status], None]
Feed = Callable[[Literal["MODIFIED", "DELETED"], Pod], None]
"""Takes in a pod as it is, or the last state of one that is gone, as the watch would."""


class BindingConfirmer:
    """Makes sure that no pod stays assumed forever."""

    __slots__ = (
        "_cache", "_dispatcher", "_due", "_failures", "_feed", "_instrument", "_next_read_at", "_reading", "after_s",
    )  # fmt: skip

    def __init__(
        self,
        cache: Cache,
        dispatcher: Dispatcher,
        instrument: Instrument,
        feed: Feed,
        after_s: float | None,
    ) -> None:
        """`after_s` is how long to wait for the watch; None: forever."""
        self.after_s = after_s
        self._cache = cache
        self._dispatcher = dispatcher
        self._instrument = instrument
        self._feed = feed
        self._due: deque[tuple[float, str]] = deque()
        """When to look at which pod; pods that have been confirmed meanwhile are dropped when their turn comes."""
        self._next_read_at = 0.0
        self._reading = 0
        self._failures = 0

    def note(self, uid: str, bound: Bound) -> None:
        """Note that a pod's Binding was answered; unless the watch has already confirmed it, look for it in due
        course.
        """
        state = self._cache.assumed_state(uid)
        if self.after_s is not None and state is not None:
            force_setattr(state, "bound", bound)
            self._put(uid, state)

    def _put(self, uid: str, state: PodState) -> None:
        assert self.after_s is not None
        look_at = self._dispatcher.now() + self.after_s
        force_setattr(state, "look_at", look_at)
        self._due.append((look_at, uid))

    def next_deadline(self) -> float | None:
        """Return when the next pod is due to be read; None while there is none, or enough are being read."""
        self._drop_confirmed()
        if not self._due or self._reading >= READS_AT_ONCE:
            return None
        return max(self._due[0][0], self._next_read_at)

    def begin(self, undo: Undo) -> None:
        """Begin to read a pod if one is due; `undo` takes back a binding that never happened."""
        while (due := self.next_deadline()) is not None and due <= self._dispatcher.now():
            _, uid = self._due.popleft()
            self._next_read_at = self._dispatcher.now() + READ_SPACING_S
            self._reading += 1
            self._dispatcher.start(self._look(uid, undo))

    def _drop_confirmed(self) -> None:
        while self._due and not self._is_waited_for(*self._due[0]):
            self._due.popleft()

    def _is_waited_for(self, look_at: float, uid: str) -> bool:
        state = self._cache.assumed_state(uid)
        # An outdated entry: the pod has been bound again since, or is to be read later.
        return state is not None and state.look_at == look_at

    def is_settled(self, uid: str) -> bool:
        """Say whether the watch has shown where an assumed pod is, or that it is gone."""
        return self._cache.assumed_state(uid) is None

    def node_of(self, uid: str) -> str:
        """Return the node on which a pod is counted; empty if it is not counted."""
        state = self._cache.state_of(uid)
        return "" if state is None else self._cache.table.names[state.row]

    def now(self) -> float:
        """Return the core's time, in seconds."""
        return self._dispatcher.now()

    def take_in(self, pod: PodInfo, found: PodRead) -> Steps[None]:
        """Take in what the API server says about an assumed pod, unless the watch was faster."""
        # Events that wait for the open cycle to end came first, and may say more.
        while self._dispatcher.is_open:
            yield WaitUntil(lambda: not self._dispatcher.is_open, self._dispatcher.now() + LONGEST_PAUSE_S)
        if self.is_settled(pod.uid):
            return
        if found.is_gone:
            self._feed("DELETED", pod.pod)
        elif found.pod is not None and found.node_name:
            self._feed("MODIFIED", found.pod)

    def _look(self, uid: str, undo: Undo) -> Steps[None]:
        state = self._cache.assumed_state(uid)
        assert state is not None
        # Read before the wait: by the time of the answer the watch may have cleared both.
        pod, bound = state.pod, state.bound
        answer = yield from call(ReadPod(PodRef.of(pod)))
        self._reading -= 1
        found: PodRead | None = answer.result
        if answer.error or found is None:
            self._look_again(uid, answer.error)
            return
        yield from self.take_in(pod, found)
        is_settled = self.is_settled(uid)
        if found.node_name and not is_settled:
            self._look_again(uid, "it cannot be read in full")
            return
        self._failures = 0
        self._tell(pod, bound, found)
        if not is_settled:
            because = f"the binding to {bound.node_name} was answered with success, but the pod is on no node"
            undo(bound.queued, bound.attempt, bound.node_name, error(because))

    def _look_again(self, uid: str, problem: str) -> None:
        """Read the pod again later, and pause before reading any other."""
        self._failures += 1
        pause_s = min(2.0 ** min(self._failures - 1, 10), LONGEST_PAUSE_S)
        self._next_read_at = max(self._next_read_at, self._dispatcher.now() + pause_s)
        state = self._cache.assumed_state(uid)
        if state is not None:
            self._put(uid, state)
            self._instrument.looked_for(state.pod, "unreadable", problem)

    def _tell(self, pod: PodInfo, bound: Bound, found: PodRead) -> None:
        at_home = "bound" if found.node_name == bound.node_name else "elsewhere"
        what = at_home if found.node_name else "gone" if found.is_gone else "unbound"
        self._instrument.looked_for(pod, what, f"it should be on {bound.node_name}")
