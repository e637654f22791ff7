"""NodeAffinity of v1.20: Filter and Score only, so that no search is narrowed, and a shorter reason."""

from collections.abc import Mapping
from typing import ClassVar, final

import msgspec

from berth.config.types import ExtensionPoint
from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.node_affinity import ENFORCED_CODE, POD_CODE, REASON_ENFORCED, NodeAffinityPlugin

REASON_POD = "node(s) didn't match Pod's node affinity"


@final
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
