"""Makes a core like the one that was recorded, or one of another configuration, and gives it what was recorded."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.generation import GENERATIONS, Generation, with_rules_of
from berth.core.intake import Event
from berth.core.options import Clocks, CoreOptions, DecisionOptions, Instrumentation
from berth.cycle.instrument import Instrument
from berth.cycle.schedule import TieBreaker
from berth.framework.effects import Answer, Effect
from berth.framework.registry import Registry
from berth.recording.calls import CallKind, CallOutcome, CallReader, RecordedCall, plain_effect
from berth.recording.configs import config_of
from berth.recording.errors import RecordingError
from berth.recording.file_format import SegmentHeader
from berth.recording.recorder import RECORDED_OPTIONS, RecordingInstrument
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable


class Rebuilt:
    """A core, and the inputs of its calls: the reader of a segment, and the readings of its clocks."""

    __slots__ = ("_late", "_notes", "_readings", "core", "header", "reader", "rng")

    def __init__(
        self,
        header: SegmentHeader,
        registry: Registry,
        *,
        config: SchedulerConfiguration | None = None,
        rng: random.Random | None = None,
        break_ties: Callable[[NodeTable], TieBreaker] | None = None,
    ) -> None:
        """`config` takes the recorded one's place. Raises `ConfigError`, `RecordingError`."""
        self.header = header
        self._notes: list[Any] = []
        self._readings: deque[float] = deque()
        self._late = 0.0
        self.rng = rng or random.Random(header.seed)
        loaded = config or config_of(header.config)
        _check_plugins(header, loaded, registry)
        decisions = DecisionOptions(
            generation=None if config is not None else _rules(header, loaded),
            break_ties=break_ties,
            **{name: value for name, value in header.options.items() if name in RECORDED_OPTIONS},
        )
        options = CoreOptions(
            rng=self.rng,
            decisions=decisions,
            clocks=Clocks(core=self._read if header.reads_clock else None, wall=self._read_wall),
            instrumentation=Instrumentation(instrument=RecordingInstrument(self._notes, Instrument())),
        )
        self.core = build_core(loaded, registry, options)
        self.reader = CallReader(self._foreign)

    def go_on(self, header: SegmentHeader) -> None:
        """Go on with another segment of the same core, whose objects are numbered anew."""
        self.header = header
        self.reader = CallReader(self._foreign)

    def learn(self, recorded: RecordedCall) -> None:
        """Read an object that is known at the beginning of a segment, so that later ones can refer to it."""
        self.reader.event(recorded)

    def event(self, recorded: RecordedCall) -> Event | Answer:
        """Return what a call of `handle` was given. Raises `RecordingError`."""
        return self.reader.event(recorded)

    def at(self, now: float) -> None:
        """Set the time to that of a call of the recorded core which is not made here."""
        self._late = now

    def name_of(self, uid: str) -> str:
        """Return `namespace/name` of a pod, or its uid where it is not there any more."""
        return next((pod.key for pod in self.core.intake.pods if pod.uid == uid), uid)

    def make(self, recorded: RecordedCall) -> CallOutcome:
        """Make the call that was recorded; return what comes out now. Raises `RecordingError`."""
        self._readings = deque(recorded.outcome.readings)
        self._late = recorded.now
        self._notes.clear()
        effects, raised = self._call(recorded)
        readings = list(recorded.outcome.readings)
        if self._readings:  # it looked at its clocks less often than before
            readings = readings[: -len(self._readings)]
        notes = [[int(note[0]), *note[1:]] for note in self._notes]
        plain = [plain_effect(each) for each in effects]
        return CallOutcome(notes, plain, readings, self.core.is_cycle_open, raised)

    def _call(self, recorded: RecordedCall) -> tuple[list[Effect], str]:
        core, entry, now = self.core, recorded.entry, recorded.now
        event = self.reader.event(recorded) if entry in (CallKind.OBJECT, CallKind.ANSWER, CallKind.SHARDS) else None
        try:
            if event is not None:
                return core.handle(event, now), ""
            if entry is CallKind.STEP:
                return core.step(now, begins=recorded.argument), ""
            if entry is CallKind.CALL_OFF:
                return core.call_off(recorded.argument, now), ""
            if entry is CallKind.ADOPT:
                core.adopt(self._remembering(recorded), now)
        except (KeyboardInterrupt, RecordingError):
            raise
        except BaseException as bug:  # the recorded core may have broken here as well
            return [], type(bug).__name__
        return [], ""

    def _remembering(self, recorded: RecordedCall) -> list[QueuedPod]:
        found = []
        for remembered in self.reader.remembered(recorded):
            known = self.core.queue.find(remembered.uid)
            if known is not None:
                queued = QueuedPod(known.pod, recorded.now)
                remembered.put_on(queued)
                found.append(queued)
        return found

    def _read(self) -> float:
        """Return what the clock said when the recorded core looked at it."""
        return self._readings.popleft() if self._readings else self._late

    def _read_wall(self) -> float:
        if self._readings:
            return self._readings.popleft()
        return self.header.wall_time + self._late - self.header.clock

    def _foreign(self, kind: str, document: Mapping[str, Any]) -> Any:
        """Return an object of a custom resource, in the form that the plugins here want it in."""
        for resource in (*self.core.resources, *self.core.resources.polled):
            if resource.name == kind:
                return resource.read(document)
        raise RecordingError(f"no plugin asks for objects of {kind}, as one did when it was recorded: use --plugin")


def _check_plugins(header: SegmentHeader, config: SchedulerConfiguration, registry: Registry) -> None:
    """Raise `RecordingError` if a recorded plugin has to be used but is not there."""
    sets = [
        each for profile in config.profiles for each in (profile.plugins.multi_point, *profile.plugins.points.values())
    ]
    enabled = {plugin.name for each in sets for plugin in each.enabled}
    for name, origin in header.plugins.items():
        if name in enabled and name not in registry:
            source = f" of {origin}" if origin else ""
            raise RecordingError(
                f"it was recorded with the plugin {name}{source}: install that, or give it with --plugin"
            )


def _rules(header: SegmentHeader, config: SchedulerConfiguration) -> Generation | None:
    """Return the policies that applied, if they were not the configuration's own."""
    if header.generation == config.generation:
        return None
    if header.generation not in GENERATIONS:
        raise RecordingError(f"it was recorded with the rules of {header.generation}, which this version does not know")
    return with_rules_of(config, GENERATIONS[header.generation].name)
