"""Records what happens to pods, on the scheduler's main path, so that the decision log can be written later.

`DecisionCollector` is an observer of the core. It has to be cheap there: it appends a tuple to a queue, with whatever
object is at hand. `take` hands over the notes; `step_of` turns one into a step. The details of a pod that gets a node
are read at once, while the search's columns are at hand, and no column is held. Those of other pods are read later,
between two cycles (`berth.cycle.decision`), since most get the same answer as before. Until then such a decision holds
columns, so only a limited number wait; the rest are noted in short.
"""

import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from berth.api.pod import Pod
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument, Observed
from berth.decisions import stories
from berth.decisions.explanation import Explanation, explain
from berth.decisions.stories import StoryStep
from berth.framework.waiting_pods import WaitingPod
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable

NOTES_AT_MOST = 50_000
"""How much may wait to be written. Beyond that the oldest is lost, and the loss is reported."""
DETAILS_AT_MOST = 1024
"""How many decisions may wait for their details to be read."""
EVENTS_AT_MOST = 12
"""How many different events that did not help are counted for one pod."""
PODS_AT_MOST = 20_000
"""For how many pods events that did not help are counted at a time."""
NODES_KEPT = 3
"""How many of the best nodes are kept with their scores, and how many names for each reason."""
NOT_HELPING = "QueueSkip"

Note = tuple[float, str, "PodInfo | KnownPod", Any]
"""What happened to which pod, when, and whatever else is needed to tell it."""


class KnownPod(NamedTuple):
    """A pod by name and uid."""

    key: str
    uid: str


class DecisionSummary(NamedTuple):
    """A decision without its columns, with their contents if these were read in time."""

    outcome: str
    chosen: str | None
    nominated: str
    message: str
    attempts: int
    details: Explanation | None = None


class DecisionCollector(Instrument):
    """Notes what happens to each pod."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since 1970."""
        self.was_full = False
        """Whether there were ever more notes than fit, so that the oldest were lost."""
        self._clock = clock
        self._notes: deque[Note] = deque(maxlen=NOTES_AT_MOST)
        self._append = self._notes.append
        self._undetailed = 0
        self._makes_room = False
        self._unhelpful: dict[str, dict[str, int]] = {}
        """By uid, how often plugins said that an event does not help."""
        self._going: set[str] = set()
        """The uids of pods that are being deleted."""
        self._ours: Container[str] = ()
        """The names of our profiles."""

    def take(self) -> list[Note]:
        """Hand over the notes; to be called between two cycles of the core."""
        notes, self._undetailed = list(self._notes), 0
        self._notes.clear()
        self.was_full = self.was_full or len(notes) == self._notes.maxlen
        return notes

    @property
    def noted(self) -> int:
        """How many notes wait to be taken."""
        return len(self._notes)

    def not_helping(self, uid: str) -> Mapping[str, int]:
        """Return which events did not help a pod, and how often, since something last happened to it."""
        return self._unhelpful.get(uid, {})

    def _note(self, what: str, pod: "PodInfo | KnownPod", more: Any) -> None:
        self._append((self._clock(), what, pod, more))

    # -- the observer ------------------------------------------------------------------------------------------------

    def attached(self, observed: Observed) -> None:
        """Learn which profiles are ours."""
        self._ours = observed.profiles

    def pod_heard_of(self, change: str, pod: Pod) -> None:
        """Note that a pod is going, and who evicted it; most changes are not about that."""
        if change != "DELETED" and pod.metadata.deletion_timestamp is None:
            return
        if pod.spec.scheduler_name in self._ours:
            self._note_end(change, pod)

    def _note_end(self, change: str, pod: Pod) -> None:
        """Note each end once. Finished pods are no longer followed, so they count as `DELETED`, too."""
        known = KnownPod(pod.key, pod.metadata.uid)
        was_going = known.uid in self._going
        if change == "DELETED":
            self._going.discard(known.uid)
            has_gone = was_going or pod.metadata.deletion_timestamp is not None
            self._note(stories.GONE, known, "gone" if has_gone else "has finished, or is gone")
        elif not was_going and len(self._going) < PODS_AT_MOST:
            self._going.add(known.uid)
            self._note(stories.GOING, known, _why_it_goes(pod))

    def queue_incoming(self, queue: str, event: str, queued: QueuedPod) -> None:
        """A pod came, was woken, or went back to wait."""
        if self._unhelpful and queued.pod.uid in self._unhelpful:
            self._note(stories.NOT_WOKEN, queued.pod, self._unhelpful.pop(queued.pod.uid))
        told = (queue, event, queued.gating_plugin, queued.gating_reasons)
        self._append((self._clock(), stories.QUEUED, queued.pod, told))

    def queue_left(self, queued: QueuedPod) -> None:
        """A pod left the queue untried."""
        self._unhelpful.pop(queued.pod.uid, None)
        self._note(stories.LEFT, queued.pod, None)

    def hinted(self, pod: PodInfo, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Count the events that do not help."""
        if hint != NOT_HELPING:
            return
        counts = self._unhelpful.get(pod.uid)
        if counts is None:
            if len(self._unhelpful) >= PODS_AT_MOST:
                return
            counts = self._unhelpful[pod.uid] = {}
        known = f"{plugin}: {event}"
        if known in counts or len(counts) < EVENTS_AT_MOST:
            counts[known] = counts.get(known, 0) + 1

    def hinted_alike(self, pods: Sequence[PodInfo], plugin: str, event: str, hint: str) -> None:
        """Count the events that do not help any of some pods."""
        if hint == NOT_HELPING:
            for pod in pods:
                self.hinted(pod, plugin, event, hint, 0.0)

    def decided(self, decision: Decision, seconds: float) -> None:
        """Note a decision, with its details to be read later if not too many wait for that.

        The pods that it preempts were noted before; the story reads better the other way round.
        """
        before = self._notes.pop() if self._makes_room and self._notes else None
        details = _at_once(decision)
        if details is not None:
            self._append((self._clock(), stories.DECIDED, decision.pod, shortened(decision, details)))
        elif self._undetailed < DETAILS_AT_MOST:
            self._undetailed += 1
            self._append((self._clock(), stories.DECIDED, decision.pod, decision))
        else:
            self._append((self._clock(), stories.DECIDED, decision.pod, shortened(decision)))
        if before is not None:
            self._append((self._clock(), *before[1:]))
            self._makes_room = False

    def waits_on_permit(self, waiting: WaitingPod) -> None:
        """Permit holds a pod."""
        told = (waiting.node_name, dict(waiting.deadlines), waiting.waiting_since, waiting.words)
        self._note(stories.PERMIT, waiting.pod, told)

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """A pod is on its node."""
        self._append((self._clock(), stories.BOUND, queued.pod, node_name))

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """A pod is not on its node after all."""
        self._note(stories.NOT_BOUND, pod, reason)

    def making_room(self, preemptor: PodInfo, victims_on: Mapping[str, Sequence[PodInfo]]) -> None:
        """Room is made for a pod."""
        self._makes_room = len(victims_on) == 1
        for node_name, victims in victims_on.items():
            self._note(stories.MAKES_ROOM, preemptor, (node_name, tuple(victim.key for victim in victims)))

    def victim_answered(self, victim: PodInfo, preemptor: PodInfo, node_name: str, refusal: str) -> None:
        """A victim goes, or may not be evicted."""
        what = stories.SPARED if refusal else stories.EVICTED
        self._note(what, victim, (preemptor.key, node_name, refusal))
        if not refusal and len(self._going) < PODS_AT_MOST:
            self._going.add(victim.uid)

    def conflicted(self, pod: PodInfo, how: str) -> None:
        """Note that another scheduler was faster."""
        self._note(stories.CONFLICT, pod, how)


def _why_it_goes(pod: Pod) -> str:
    """Return who evicted a pod, as its condition DisruptionTarget has it; empty where it was simply deleted."""
    told = (each for each in pod.status.conditions if (each.type, each.status) == ("DisruptionTarget", "True"))
    return next((f"{each.reason}: {each.message}" if each.message else each.reason for each in told), "")


def shortened(decision: Decision, details: Explanation | None = None) -> DecisionSummary:
    """Return a decision without its columns."""
    told = (decision.outcome, decision.chosen, decision.nominated, decision.message, decision.attempts)
    return DecisionSummary(*told, details)


def step_of(note: Note, table: NodeTable | None = None) -> StoryStep:
    """Turn a note into a step. Decisions are read in detail, for which the core has to be between cycles."""
    at, what, _, more = note
    match what:
        case stories.QUEUED:
            queue, event, gate, reasons = more
            return StoryStep(at, what, queue=queue, event=event, by=gate, message=", ".join(reasons))
        case stories.DECIDED:
            return _decided(at, more, table)
        case stories.PERMIT:
            node_name, deadlines, since, words = more
            told = "; ".join(f"{plugin}: {words[plugin]}" if words.get(plugin) else plugin for plugin in deadlines)
            return StoryStep(at, what, node=node_name, message=told, until=at + min(deadlines.values()) - since)
        case stories.BOUND:
            return StoryStep(at, what, node=more)
        case stories.NOT_BOUND | stories.CONFLICT | stories.GOING | stories.GONE:
            return StoryStep(at, what, message=more)
        case stories.MAKES_ROOM:
            return StoryStep(at, what, node=more[0], pods=more[1])
        case stories.EVICTED | stories.SPARED:
            return StoryStep(at, what, by=more[0], node=more[1], message=more[2])
        case stories.NOT_WOKEN:
            return StoryStep(at, what, events=more)
    return StoryStep(at, what)


def _decided(at: float, decision: Decision | DecisionSummary, table: NodeTable | None) -> StoryStep:
    details = _details(decision, table) if isinstance(decision, Decision) else decision.details
    return StoryStep(
        at,
        stories.DECIDED,
        node=decision.chosen or "",
        by=decision.nominated,
        message=decision.message,
        attempts=decision.attempts,
        decision=details,
    )


def _at_once(decision: Decision) -> Explanation | None:
    """Return the details of a pod that has just got a node.

    Read now they cost a fraction of what they cost later, and no column has to be held. None for other pods, most of
    which get the same answer as before, and none if a plugin cannot describe its codes: whoever reads the decision
    later will report that.
    """
    if decision.fresh is None or decision.chosen is None:
        return None
    try:
        return _details(decision)
    except Exception:  # a bug in a plugin must not end an attempt that is only being recorded
        return None


def _details(decision: Decision, table: NodeTable | None = None) -> Explanation:
    details = explain(decision, top=NODES_KEPT, names_shown=NODES_KEPT, table=table)
    decision.forget_worked_out()
    return details
