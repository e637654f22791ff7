"""What `berth run --record` has recorded, as the page's last hour: nodes, queue and attempts at each moment.

The recorded cores are made again and given the same calls; nothing is compared, that is `berth replay`'s.
"""

from collections import Counter
from collections.abc import Iterable

from berth.decisions.node_columns import copy_columns
from berth.framework.registry import Registry
from berth.recording.calls import CallKind, decisions_of
from berth.recording.errors import RecordingError
from berth.recording.file_format import Segment
from berth.runtime.observing.metrics import queue_counts
from berth_workbench.replay.reconstruction import Rebuilt
from berth_workbench.sources.levels import LevelHistory
from berth_workbench.sources.model import RESULTS, QueueHistory, QueueSample

EVERY_S = 10.0
RESULT_OF = {"scheduled": "scheduled", "error": "error"}
"""How metrics call the outcome of an attempt; every other is `unschedulable`."""


class RecordedHistory:
    """The latest hour of a recording; the same as `HistoryRecorder` has of a scheduler at work."""

    __slots__ = ("history", "levels", "problem")

    def __init__(self) -> None:
        self.history = QueueHistory()
        self.levels = LevelHistory()
        self.problem = ""


def read_history(segments: Iterable[Segment], registry: Registry, every_s: float = EVERY_S) -> RecordedHistory:
    """Play a recording, and look at it every so often. Raises `RecordingError`, `ConfigError`."""
    found, attempts = RecordedHistory(), Counter[str]()
    rebuilt: Rebuilt | None = None
    due = at_s = float("-inf")
    for segment in segments:
        header = segment.header
        if header.begins in ("start", "reload") and (rebuilt is None or rebuilt.header.life != header.life):
            rebuilt = Rebuilt(header, registry)
        elif rebuilt is not None and rebuilt.header.life == header.life:
            rebuilt.go_on(header)
        else:
            rebuilt = None  # its beginning is gone, and with it the nodes that were there
        for recorded in segment.calls():
            if rebuilt is None:
                break
            if recorded.entry is CallKind.KNOWN:
                rebuilt.learn(recorded)
            elif recorded.entry is not CallKind.STANDING:
                made = rebuilt.make(recorded)
                attempts.update(RESULT_OF.get(each.outcome, "unschedulable") for each in decisions_of(made))
                at_s = header.wall_time + recorded.now - header.clock
                if at_s >= due:
                    due = at_s + every_s
                    _look(found, rebuilt, at_s, attempts)
        if rebuilt is not None:
            _look(found, rebuilt, at_s, attempts)  # what the last calls came to
    if not len(found.levels):
        raise RecordingError("the beginning of what was recorded is gone, so nothing can be shown of it")
    return found


def _look(found: RecordedHistory, rebuilt: Rebuilt, at_s: float, attempts: Counter[str]) -> None:
    found.levels.add(at_s, copy_columns(rebuilt.core.cache.table).columns())
    counted = {result: float(attempts[result]) for result in RESULTS}
    found.history.add(QueueSample(at_s, dict(queue_counts(rebuilt.core)), counted))
