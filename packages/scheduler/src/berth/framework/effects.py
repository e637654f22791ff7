"""What the core asks the outside to do, as frozen values. `runtime/` carries these out; simulators answer at once.

An effect that nobody waits for is returned bare. One that a cycle waits for comes as a `Request`; its ticket comes
back with the `Answer`.
"""

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from berth.api.pod import Pod
from berth.state.pod_info import PodInfo

Result = TypeVar("Result")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Answered = TypeVarWithDefault("Answered", default=Any)  # so that `Answer` alone is an answer to anything
else:
    Answered = TypeVar("Answered")


class Answerable(msgspec.Struct, Generic[Answered], frozen=True):
    """An effect that can be waited for; the type parameter is that of its answer."""


class PodRef(msgspec.Struct, frozen=True):
    """Which pod an effect is about."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, pod: PodInfo) -> "PodRef":
        """Return the reference to a pod."""
        return cls(pod.namespace, pod.name, pod.uid)


class Bind(Answerable[None], frozen=True):
    """Create the Binding of a pod to a node."""

    pod: PodRef
    node_name: str


class PatchPodStatus(msgspec.Struct, frozen=True):
    """Set the PodScheduled condition and, unless it is None, status.nominatedNodeName ("" clears it)."""

    pod: PodRef
    condition_status: str | None = None
    reason: str = ""
    message: str = ""
    nominated_node_name: str | None = None
    observed_generation: int = 0
    """The generation of the pod that the condition is about; 0 if unknown."""


class SetPodGroupCondition(msgspec.Struct, frozen=True):
    """Set the PodGroupScheduled condition of a pod group; `has_changed` says that its status differs from before."""

    namespace: str
    name: str
    uid: str
    condition_status: str
    reason: str
    message: str
    observed_generation: int
    has_changed: bool


class EmitEvent(msgspec.Struct, frozen=True):
    """Record an Event about a pod."""

    pod: PodRef
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    reporting_controller: str


class EvictPod(Answerable[None], frozen=True):
    """Delete a preempted pod, after noting why in its status."""

    pod: PodRef
    message: str
    preemptor: PodRef
    observed_generation: int = 0
    """The generation of the evicted pod; 0 if unknown."""


class PodRead(msgspec.Struct, frozen=True):
    """What the API server says about a pod: gone, on a node, or on none."""

    is_gone: bool = False
    """Whether there is no such pod, or another of the same name."""
    node_name: str = ""
    pod: Pod | None = None
    """The pod itself; None if it is gone or cannot be read in full."""


class ReadPod(Answerable[PodRead], frozen=True):
    """Ask the API server where a pod is."""

    pod: PodRef


ApiVerb = Literal["get", "create", "update", "patch", "delete"]


class ApiCall(Answerable[Any], frozen=True):
    """Any other call to the API server: a verb on one object."""

    verb: ApiVerb
    kind: str
    """As in manifests, `Pod`; for a resource that a plugin follows it is its name, `QUOTAS.name`."""
    namespace: str
    """Empty if the kind has none."""
    name: str
    """Empty for `create`, whose body has the name."""
    body: Mapping[str, Any] = {}
    """The new object for `create`, the whole object for `update`, a merge patch for `patch`; None otherwise."""
    subresource: str = ""
    """For example `status`; empty for the object itself."""


class CallExtender(msgspec.Struct, frozen=True):
    """One call to an extender: its index in the configuration, the verb, and the document, as JSON."""

    extender: int
    verb: str
    body: bytes
    writes_in: str = ""
    """The namespace of the pod that the call binds; empty for calls that only ask."""


class ExtenderAnswer(msgspec.Struct, frozen=True):
    """An extender's raw answer, or why there is none.

    `is_unknown` says that the call may have had its effect although there is no answer.
    """

    body: bytes = b""
    error: str = ""
    is_unknown: bool = False


class CallExtenders(Answerable[tuple[ExtenderAnswer, ...]], frozen=True):
    """Call extenders, all at the same time. There is one answer per call, in order."""

    calls: tuple[CallExtender, ...]


class WaitUntil(msgspec.Struct, frozen=True):
    """Resume once `predicate()` holds after some event, or at `deadline` (answered True or False)."""

    predicate: Callable[[], bool]
    deadline: float


class Request(msgspec.Struct, Generic[Answered], frozen=True):
    """An effect that a cycle waits for."""

    ticket: int
    effect: Answerable[Answered]


class Answer(msgspec.Struct, Generic[Answered], frozen=True):
    """The answer to a request: a result, or an error message (and then the result is meaningless)."""

    ticket: int
    result: Answered = None  # type: ignore[assignment]  # where nothing is answered, or an error
    error: str = ""


Effect = (
    Bind | PatchPodStatus | SetPodGroupCondition | EmitEvent | EvictPod | ReadPod | ApiCall | CallExtenders | Request
)

Awaited = Answerable | WaitUntil
"""What a cycle, or a plugin's method in progress, may wait for."""

Steps = Generator[Awaited, Any, Result]
"""A method in progress: it yields what it waits for, is sent the answer, and returns its result.

A call is answered with an `Answer`, a `WaitUntil` with whether its condition holds. What is sent depends on what was
yielded, which a generator's type cannot say; `call` and `wait_until` can.
"""


def call(effect: Answerable[Answered]) -> Steps[Answer[Answered]]:
    """Wait for a call to the outside; return its answer."""
    answer = yield effect
    assert isinstance(answer, Answer), f"{effect} was answered with {answer!r}"
    return answer


def wait_until(predicate: Callable[[], bool], deadline: float) -> Steps[bool]:
    """Wait until `predicate()` holds after some event, or for the time `deadline`; say whether it holds."""
    holds = yield WaitUntil(predicate, deadline)
    assert isinstance(holds, bool), f"a wait was answered with {holds!r}"
    return holds
