"""What the cycle knows about extenders: outside processes that filter, prioritise, preempt and bind besides the
plugins.

`berth.extender` implements `Extender` for those that the configuration lists; a profile holds them in the order in
which they are called. An `Extender` makes the calls (`…_call`) and reads the answers (`read_…`); the runtime carries
calls out. `consult` does all three; the result is noted in the pod's CycleState, for the trace.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from berth.api.node import Node
from berth.framework.cycle_state import CycleState
from berth.framework.effects import CallExtender, CallExtenders, ExtenderAnswer, Steps, call
from berth.state.pod_info import PodInfo

Verb = Literal["filter", "prioritize", "preempt", "bind"]

EXTENDER_NAME = "Extender"
"""The name under which the queue knows extenders as rejectors; any event may help a pod that they rejected."""
MAX_EXTENDER_PRIORITY = 10


class ExtenderError(Exception):
    """An extender's answer says that it failed, or is unusable; the message is for people."""


class Filtered(NamedTuple):
    """The nodes that an extender left of those it was given, and why not the others, if it says so."""

    kept: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    """Nodes where removing pods would not help; they may be in `failed` too."""


class NodeVictims(NamedTuple):
    """The pods that would have to leave a node, and how many of these evictions break a disruption budget."""

    pods: tuple[PodInfo, ...]
    violations: int


class VictimIds(NamedTuple):
    """The same as an extender gives it: pods by uid."""

    uids: tuple[str, ...]
    violations: int


class Extender(Protocol):
    """One configured extender. Reading an answer raises `ExtenderError`."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> int: ...

    @property
    def is_ignorable(self) -> bool: ...

    def does(self, verb: Verb) -> bool: ...

    def is_interested(self, pod: PodInfo) -> bool: ...

    def filter_call(self, pod: PodInfo, nodes: Sequence[Node]) -> CallExtender: ...

    def read_filter(self, answer: bytes, given: Sequence[Node]) -> Filtered: ...

    def prioritize_call(self, pod: PodInfo, nodes: Sequence[Node]) -> CallExtender: ...

    def read_prioritize(self, answer: bytes) -> Sequence[tuple[str, int]]: ...

    def preempt_call(self, pod: PodInfo, victims: Mapping[str, NodeVictims]) -> CallExtender: ...

    def read_preempt(self, answer: bytes) -> Mapping[str, VictimIds]: ...

    def bind_call(self, pod: PodInfo, node_name: str) -> CallExtender: ...

    def read_bind(self, answer: bytes) -> None: ...


class ExtenderCallRecord(msgspec.Struct, frozen=True):
    """One call to an extender and its result, for the trace. `problem` is empty if all went well."""

    extender: str
    verb: Verb
    problem: str = ""
    is_ignored: bool = False
    """Whether the attempt went on in spite of the problem."""
    note: str = ""


class ExtenderReply(NamedTuple):
    """An answer that was read, or None and the problem."""

    result: Any
    problem: str
    is_unknown: bool = False
    """Whether the call may have had its effect although it failed."""


def interested(extenders: Iterable[Extender], verb: Verb, pod: PodInfo) -> list[Extender]:
    """Return the extenders that have this verb and are interested in the pod, in order."""
    return [extender for extender in extenders if extender.does(verb) and extender.is_interested(pod)]


def consult(asked: CallExtender, read: Callable[[bytes], Any]) -> Steps[ExtenderReply]:
    """Call one extender and read its answer."""
    [found] = yield from consult_all([(asked, read)])
    return found


def consult_all(
    calls: Sequence[tuple[CallExtender, Callable[[bytes], Any]]],
) -> Steps[list[ExtenderReply]]:
    """Call extenders, all at once, and read their answers, in the order of the calls."""
    if not calls:
        return []
    answer = yield from call(CallExtenders(tuple(one for one, _ in calls)))
    if answer.error:
        return [ExtenderReply(None, answer.error) for _ in calls]
    told: Sequence[ExtenderAnswer] = answer.result
    return [_consulted(one, read) for one, (_, read) in zip(told, calls, strict=True)]


def _consulted(answer: ExtenderAnswer, read: Callable[[bytes], Any]) -> ExtenderReply:
    if answer.error:
        return ExtenderReply(None, answer.error, is_unknown=answer.is_unknown)
    try:
        return ExtenderReply(read(answer.body), "")
    except ExtenderError as error:
        return ExtenderReply(None, str(error))


def note(state: CycleState, asked: ExtenderCallRecord) -> None:
    """Keep the result of a call for the trace of the attempt."""
    list.append(state.asked, asked)
