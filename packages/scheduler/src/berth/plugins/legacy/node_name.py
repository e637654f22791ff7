"""NodeName of v1.20: its reason says "hostname" where today's says "node name"."""

from typing import ClassVar, final

from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.node_name import NodeName

REASON = "node(s) didn't match the requested hostname"


@final
class LegacyNodeName(NodeName):
    """Filter."""

    name: ClassVar[str] = "NodeName"
    promises: ClassVar[Promises] = NodeName.promises
    rejected: ClassVar[Status] = unresolvable(REASON)
