"""NodeAffinity of v1.20: Filter and Score only, so that no search is narrowed, and a shorter reason."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec

from berth.config.types import ExtensionPoint
from berth.framework.interface import (
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    ScorePlugin,
    SignaturePlugin,
)
from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.node_affinity import ENFORCED_CODE, POD_CODE, REASON_ENFORCED, NodeAffinityPlugin

REASON_POD = "node(s) didn't match Pod's node affinity"


class LegacyNodeAffinity(NodeAffinityPlugin):
    """Filter, Score, NormalizeScore."""

    name: ClassVar[str] = "NodeAffinity"
    promises: ClassVar[Promises] = msgspec.structs.replace(
        NodeAffinityPlugin.promises,
        points=frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    )
    status_by_code: ClassVar[Mapping[int, Status]] = {
        ENFORCED_CODE: unresolvable(REASON_ENFORCED),
        POD_CODE: unresolvable(REASON_POD),
    }


if TYPE_CHECKING:

    class _Points(
        FilterPlugin,
        ColumnFilterPlugin,
        ScorePlugin,
        ColumnScorePlugin,
        NormalizeScorePlugin,
        SignaturePlugin,
        EventsPlugin,
        Protocol,
    ):
        """The points and forms that the plugin has; the type checker holds it to these."""

    def _held(plugin: LegacyNodeAffinity) -> _Points:
        return plugin
