"""Records a core while it works: every call of it, with all that came out, to the files of a directory.

`Recorder.build_core` makes a core as `berth.core.assembly.build_core` does, but one that hands each call on to be
written. A core's randomness then has a seed of its own, and what it reads of clocks is noted. The core's thread only
puts values that never change into a queue; encoding, compression and the disk are the business of a thread that `start`
begins. Nothing that goes wrong there stops the scheduling: it is reported once, and the recording ends.
"""

import functools
import platform
import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core, CoreParts
from berth.core.intake import Event, ObjectEvent
from berth.core.options import Clocks, CoreOptions
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument
from berth.framework.effects import Answer, Effect
from berth.framework.registry import IN_TREE, Registry
from berth.recording.calls import Call, CallKind, KnownState, Note, QueueMemory
from berth.recording.configs import plain_config
from berth.recording.file_format import Beginning, SegmentHeader
from berth.recording.files import SegmentFiles
from berth.recording.objects import Plain
from berth.state.cache import Expired
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

WRITE_EVERY_S: Final = 0.5
MOST_WAITING: Final = 1_000_000
"""How many calls may wait to be written; more are there only if the disk is slower than the scheduler."""
AT_ONCE: Final = 2_000
"""How many calls are written before the writer lets others have their turn."""
KNOWN_AT_ONCE: Final = 200
"""How many of the objects that are known are written at once when a segment begins with them; 2 ms or so."""
REST_S: Final = 0.002
RECORDED_OPTIONS: Final = ("memos", "unschedulable_age_s", "score_single_node", "shards", "work_limit")

Report = Callable[[str], None]


class SegmentStart(NamedTuple):
    """What a core knows between two calls, as references to values that never change: a segment can begin with it."""

    now: float
    wall_time: float
    objects: "ObjectsTakenOver"
    standing: KnownState


class Recorder:
    """Records all the cores that it builds, one after the other: a reload makes a new one."""

    def __init__(
        self, directory: Path, *, limit: int, report: Report, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """`limit` is how many bytes the directory may hold. Raises `RecordingError` where it cannot be written to."""
        self._files = SegmentFiles(directory, limit)
        self._report = report
        self.wall_clock = wall_clock
        self._waiting: deque[tuple[_Life, Call | SegmentStart]] = deque()
        self._is_over = False
        self._begins: Beginning = "start"
        self._begun: set[str] = set()
        """The lives of which something was written."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="berth-recording", daemon=True)

    @property
    def is_recording(self) -> bool:
        """Whether calls are still taken."""
        return not self._is_over

    def build_core(self, config: SchedulerConfiguration, registry: Registry, options: CoreOptions) -> Core:
        """Return a core as `build_core` does; `options.rng` gives the seed of its own randomness.

        Where cores of another class are to be made, what reaches the plain core below that class is recorded. Raises
        what that raises.
        """
        seed = options.rng.getrandbits(63)
        clocks, watching, rules = options.clocks, options.instrumentation, options.decisions.generation
        recorded = zip(RECORDED_OPTIONS, attrgetter(*RECORDED_OPTIONS)(options.decisions), strict=True)
        header = SegmentHeader(
            begins=self._begins,
            life=str(uuid.uuid4()),
            berth=version("berth-scheduler"),
            python=platform.python_version(),
            wall_time=self.wall_clock(),
            clock=0.0 if clocks.core is None else clocks.core(),
            seed=seed,
            reads_clock=clocks.core is not None,
            generation=config.generation if rules is None else rules.name,
            config=plain_config(config),
            plugins={name: registry.origin(name) for name in registry.names if registry.origin(name) != IN_TREE},
            options={name: value for name, value in recorded if value is not None},
        )
        life = _Life(self, header)
        instrument = RecordingInstrument(life.notes, watching.instrument or Instrument())
        options = replace(
            options,
            rng=random.Random(seed),
            clocks=Clocks(
                core=None if clocks.core is None else life.noting(clocks.core), wall=life.noting(clocks.wall)
            ),
            instrumentation=replace(watching, instrument=instrument),
            make_core=_recorded(options.make_core, life),
        )
        core = build_core(config, registry, options)
        self._begins = "reload"
        return core

    def take(self, life: "_Life", item: Call | SegmentStart) -> None:
        """Have a call written, or a new segment begun."""
        if self._is_over:
            return
        self._waiting.append((life, item))
        if len(self._waiting) > MOST_WAITING:
            self._end(f"{MOST_WAITING} calls wait to be written, so the disk is too slow")

    def start(self) -> None:
        """Begin to write on a thread of its own; without it, everything is written by `write` and `close`."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.write()
        self._is_over = True
        self._files.close()

    def write(self) -> None:
        """Write what waits."""
        try:
            while self._waiting and not self._is_over:
                self._write_some()
        except OSError as error:
            self._end(f"{self._files.directory}: {error.strerror or error}")
        except Exception as bug:
            self._end(f"it broke because of a bug, {type(bug).__name__}: {bug}")

    def _write_some(self) -> None:
        """Write the calls of one core up to the next start of a segment, or some of them."""
        life, item = self._waiting[0]
        if isinstance(item, SegmentStart):
            self._waiting.popleft()
            self._begin_segment(life, item)
            return
        calls: list[Call] = []
        while self._waiting and len(calls) < AT_ONCE:
            next_life, item = self._waiting[0]
            if next_life is not life or isinstance(item, SegmentStart):
                break
            self._waiting.popleft()
            calls.append(item)
        if self._files.life != life.header.life:
            if life.header.life in self._begun:  # another core was to take over, and did not: go on with this one
                life.wants_segment_start = True
                return
            self._begun.add(life.header.life)
            self._files.begin(life.header)
        if self._files.write(calls):
            life.wants_segment_start = True

    def _begin_segment(self, life: "_Life", item: SegmentStart) -> None:
        """Begin another segment of the same core."""
        header = msgspec.structs.replace(life.header, begins="rotation", wall_time=item.wall_time, clock=item.now)
        self._files.begin(header)
        objects = iter(item.objects)
        while known := list(islice(objects, KNOWN_AT_ONCE)):
            self._files.write([_no_call(CallKind.KNOWN, item.now, ObjectEvent("ADDED", *each)) for each in known])
            time.sleep(REST_S)  # nothing is in a hurry here, and the core's thread is
        self._files.write([_no_call(CallKind.STANDING, item.now, item.standing)])

    def _end(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._waiting.clear()
            self._report(f"the recording ends, while scheduling goes on: {why}")

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_EVERY_S):
            self.write()


def _no_call(entry: CallKind, now: float, argument: Any) -> Call:
    return Call(entry, now, argument, [], [], [], is_open=False, raised="")


class _Life:
    """One core while it is recorded: what it has told of itself in the call that is under way."""

    __slots__ = ("_recorder", "header", "notes", "readings", "shards", "wants_segment_start")

    def __init__(self, recorder: Recorder, header: SegmentHeader) -> None:
        self._recorder = recorder
        self.header = header
        self.notes: list[Plain] = []
        self.readings: list[float] = []
        self.shards: list[int] | None = None
        self.wants_segment_start = False
        """Set by the writer: the segment is full, and the next one should begin with what is known by then."""

    def noting(self, clock: Callable[[], float]) -> Callable[[], float]:
        """Return a clock that notes what it says."""
        readings = self.readings

        def read() -> float:
            now = clock()
            readings.append(now)
            return now

        return read

    def over(
        self, core: Core, entry: CallKind, now: float, argument: Any, effects: list[Effect], raised: str = ""
    ) -> None:
        """Hand on a call that is over."""
        notes, readings = self.notes.copy(), self.readings.copy()
        self.notes.clear()
        self.readings.clear()
        is_open = core.is_cycle_open
        self._recorder.take(self, Call(entry, now, argument, notes, effects, readings, is_open, raised))
        if self.wants_segment_start and not is_open:
            self.wants_segment_start = False
            self._recorder.take(self, SegmentStart(now, self._recorder.wall_clock(), *known_now(core, self.shards)))


class RecordedCore(Core):
    """A core that hands on every call of it."""

    def __init__(self, parts: CoreParts, life: _Life) -> None:
        super().__init__(parts)
        self._life = life
        self.takes_many = False

    def handle(self, event: Event | Answer, now: float) -> list[Effect]:
        """Take an event in; return what is to be done about it."""
        if isinstance(event, ObjectEvent):
            entry = CallKind.OBJECT
        elif isinstance(event, Answer):
            entry = CallKind.ANSWER
        else:
            entry = CallKind.SHARDS
            self._life.shards = sorted(event.shards)
        return self._recorded(entry, now, event, super().handle, event, now)

    def step(self, now: float, *, begins: bool = True) -> list[Effect]:
        """Do what is due, then run one scheduling cycle if a pod is ready."""
        return self._recorded(CallKind.STEP, now, begins, super().step, now, begins=begins)

    def call_off(self, reason: str, now: float) -> list[Effect]:
        """Turn back every pod that waits for Permit or in PreBind."""
        return self._recorded(CallKind.CALL_OFF, now, reason, super().call_off, reason, now)

    def adopt(self, others: Iterable[QueuedPod], now: float) -> None:
        """Take over what another core's queue remembers of the pods that both have."""
        taken = list(others)
        super().adopt(taken, now)
        self._life.over(self, CallKind.ADOPT, now, [QueueMemory.of(each) for each in taken], [])

    def _recorded(
        self, entry: CallKind, now: float, argument: Any, call: Callable[..., list[Effect]], *given: Any, **options: Any
    ) -> list[Effect]:
        effects: list[Effect] = []
        raised = ""
        try:
            effects = call(*given, **options)
        except BaseException as bug:
            raised = type(bug).__name__
            raise
        finally:
            self._life.over(self, entry, now, argument, effects, raised)
        return effects


def _recorded(make_core: Callable[[CoreParts], Core], life: _Life) -> Callable[[CoreParts], Core]:
    """Return what makes a recorded core, of a class that lies above the recording where it is not the plain one."""
    if make_core is Core:
        return functools.partial(RecordedCore, life=life)
    assert isinstance(make_core, functools.partial), "cores of another class are made by it and what else it takes"
    above: Any = make_core.func
    kind: Any = type("RecordedCoreBelow", (above, RecordedCore), {})
    return functools.partial(kind, life=life, **make_core.keywords)


class RecordingInstrument(Instrument):
    """Notes decisions, and hands everything on to the observer behind it, at no cost for what it does not note."""

    def __init__(self, notes: list[Plain], behind: Instrument) -> None:
        self.followed = behind.followed
        self._notes = notes
        self._behind = behind
        for name, method in vars(Instrument).items():
            if callable(method) and name not in vars(RecordingInstrument):
                setattr(self, name, getattr(behind, name))

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt has ended."""
        pod = decision.pod
        self._notes.append(
            [Note.DECIDED, pod.uid, decision.chosen, decision.outcome, decision.message, decision.at, decision.attempts]
        )
        self._behind.decided(decision, seconds)

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """A choice was taken back."""
        self._notes.append([Note.TURNED_BACK, pod.uid])
        self._behind.binding_failed(pod, reason, is_rejection=is_rejection, is_gone=is_gone)

    def swept(self, expired: Expired) -> None:
        """Assumed pods may have been given up."""
        if expired.pods:
            self._notes.append([Note.EXPIRED, *(pod.uid for pod in expired.pods)])
        self._behind.swept(expired)


class ObjectsTakenOver:
    """The objects that a core knows, as it holds them: taking them is a matter of copying references.

    What is copied never changes, so that it may be gone through later, and on another thread.
    """

    __slots__ = ("_nodes", "_others", "_pods")

    def __init__(self, core: Core) -> None:
        objects = core.objects
        self._others = [(kind, list(objects.list(kind))) for kind in objects.kinds]
        self._nodes = list(core.cache.table.nodes)
        self._pods = list(core.intake.pods)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for kind, objects in self._others:
            for obj in objects:
                yield kind, obj
        for node in self._nodes:
            if node is not None:
                yield "Node", node
        for pod in self._pods:
            yield "Pod", pod.pod


def known_now(core: Core, shards: list[int] | None) -> tuple[ObjectsTakenOver, KnownState]:
    """Return what a core knows between two calls: the objects, and what it has made of them."""
    names, nominator = core.cache.table.names, core.nominator
    assumed = [(uid, names[state.row]) for uid, state in core.cache.assumed.items()]
    nominated = [(pod.uid, node) for node in nominator.nodes() for pod in nominator.pods_on(node)]
    return ObjectsTakenOver(core), KnownState(assumed, nominated, core.search.start_index, shards)
