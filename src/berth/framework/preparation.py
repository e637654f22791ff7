"""PreFilter and PreScore without asking again what cannot have changed.

Many plugins answer from the pod's shape alone (`pre_filter_is_pure`, `pre_score_is_pure`: true, or a function of the
pod that says so), most of them that they have nothing to say. Those are asked once for each shape; the others for
every pod.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from berth.framework.interface import PreFilterResult
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo

Answer = PreFilterResult | Status | None


class Preparation(NamedTuple):
    """The plugins that skip pods of one shape, and those that are to be asked, in the profile's order."""

    skipped: frozenset[str]
    to_ask: tuple[Any, ...]


def prepare(plugins: Sequence[Any], purity: str, pod: PodInfo, ask: Callable[[Any], Answer]) -> Preparation:
    """Ask the pure plugins now; one that rejects or narrows is left to be asked in its turn."""
    skipped: set[str] = set()
    to_ask: list[Any] = []
    for plugin in plugins:
        is_pure = _is_pure(plugin, purity, pod)
        answer = ask(plugin) if is_pure else None
        if answer is None and is_pure:
            continue
        if isinstance(answer, Status) and answer.code is Code.SKIP:
            skipped.add(plugin.name)
        elif not isinstance(answer, Status) or not is_success(answer):
            to_ask.append(plugin)
    return Preparation(frozenset(skipped), tuple(to_ask))


def _is_pure(plugin: Any, purity: str, pod: PodInfo) -> bool:
    is_pure = getattr(plugin, purity, False)
    return bool(is_pure(pod) if callable(is_pure) else is_pure)
