"""NodeName of v1.20: its reason says "hostname" where today's says "node name"."""

from typing import TYPE_CHECKING, ClassVar, Protocol

from berth.framework.interface import ColumnFilterPlugin, EventsPlugin, FilterPlugin, PreFilterPlugin, SignaturePlugin
from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.node_name import NodeName

REASON = "node(s) didn't match the requested hostname"


class LegacyNodeName(NodeName):
    """Filter."""

    name: ClassVar[str] = "NodeName"
    promises: ClassVar[Promises] = NodeName.promises
    rejected: ClassVar[Status] = unresolvable(REASON)


if TYPE_CHECKING:

    class _Points(PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, SignaturePlugin, EventsPlugin, Protocol):
        """The points and forms that the plugin has; the type checker holds it to these."""

    def _held(plugin: LegacyNodeName) -> _Points:
        return plugin
