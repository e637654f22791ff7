"""DefaultBinder: binds the pod by creating its Binding on the API server.

Upstream plugin `DefaultBinder`, v1.36.
"""

from typing import ClassVar, final

from berth.framework.cycle_state import CycleState
from berth.framework.effects import Bind, PodRef, Steps, call
from berth.framework.handle import Handle
from berth.framework.interface import BindPlugin
from berth.framework.promises import Promises
from berth.framework.status import Status, error
from berth.state.pod_info import PodInfo


@final
class DefaultBinder(BindPlugin):
    """Bind."""

    name: ClassVar[str] = "DefaultBinder"
    promises: ClassVar[Promises] = Promises(binds_plainly=True)

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Steps[Status | None]:
        """Ask for the Binding and report what came of it."""
        answer = yield from call(Bind(PodRef.of(pod), node_name))
        return error(answer.error) if answer.error else None
