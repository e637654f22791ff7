"""NodeName of v1.20: the reason speaks of the host's name, where that of the node is meant."""

from typing import ClassVar

from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.node_name import NodeName

REASON = "node(s) didn't match the requested hostname"


class LegacyNodeName(NodeName):
    """Filter."""

    name: ClassVar[str] = "NodeName"
    promises: ClassVar[Promises] = NodeName.promises
    rejected: ClassVar[Status] = unresolvable(REASON)
