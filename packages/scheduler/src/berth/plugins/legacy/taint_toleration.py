"""TaintToleration of v1.20: the reason names the first taint that is not tolerated."""

from typing import ClassVar, final

from berth.api.taints import tolerated
from berth.framework.handle import Handle
from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.taint_toleration import FILTERED_EFFECTS, Taints, TaintToleration
from berth.state.pod_info import PodInfo

REASON = "node(s) had taint {{{}: {}}}, that the pod didn't tolerate"


@final
class LegacyTaintToleration(TaintToleration):
    """Filter, PreScore, Score, NormalizeScore. Codes number the taints (key and value) met so far."""

    name: ClassVar[str] = "TaintToleration"
    promises: ClassVar[Promises] = TaintToleration.promises

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._code_of: dict[tuple[str, str], int] = {}
        self._statuses: list[Status] = []

    def _code(self, taints: Taints, pod: PodInfo) -> int:
        tolerations = pod.spec.tolerations
        for taint in taints:
            if taint.effect in FILTERED_EFFECTS and not tolerated(taint, tolerations, self._compare_numbers):
                return self._number(taint.key, taint.value)
        return 0

    def _number(self, key: str, value: str) -> int:
        code = self._code_of.get((key, value))
        if code is None:
            self._statuses.append(unresolvable(REASON.format(key, value)))
            code = self._code_of[key, value] = len(self._statuses)
        return code

    def _describe(self, code: int) -> Status:
        return self._statuses[code - 1]
