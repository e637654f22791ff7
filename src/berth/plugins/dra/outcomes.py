"""What searches have found on nodes, kept for the next pod whose claims ask for the same.

Kept by what the claims ask for, then by node; dropped for the nodes that see a pool of which something was taken or
given back since, and altogether where slices or classes have changed. Asked by the plugin. Decisions never depend on
it: what is kept is what the same search would find again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Container
from berth.plugins.dra.allocator import ClaimDevices
from berth.plugins.dra.devices import Inventory
from berth.plugins.dra.ledger import Allocated


class NodeOutcome(NamedTuple):
    """What came of a search on a node."""

    node: Node
    """The node object that was looked at."""
    found: tuple[ClaimDevices, ...] | None
    problem: str = ""
    """Why the search was given up, if it was: it would be again, at the same cost."""


_ENCODER = msgspec.json.Encoder()


class _Kept:
    __slots__ = ("by_node", "position", "versions")

    def __init__(self) -> None:
        self.by_node: dict[str, NodeOutcome] = {}
        self.position = 0
        self.versions: tuple[int, ...] = ()


class Outcomes:
    """Outcomes by what was asked for; the most recently used are kept."""

    __slots__ = ("_kept", "_max")

    def __init__(self, max_asked: int = 64) -> None:
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._max = max_asked

    def of(
        self,
        claims: Sequence[ResourceClaim],
        containers: Sequence[Container],
        versions: tuple[int, ...],
        allocated: Allocated,
        inventory: Inventory,
    ) -> dict[str, NodeOutcome]:
        """Return what is known for claims that ask for the same, by node; new outcomes are to be added to it.

        `containers` are those that ask for extended resources.
        """
        asked = [(container.restart_policy, container.resources.requests) for container in containers]
        key = _ENCODER.encode(([claim.spec for claim in claims], asked))
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept()
            if len(self._kept) > self._max:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        touched = allocated.touched_since(kept.position)
        if kept.versions != versions or touched is None:
            kept.by_node = {}
        else:
            for pool in touched:
                nodes = inventory.nodes_of(pool)
                if nodes is None:
                    kept.by_node = {}
                    break
                for name in nodes:
                    kept.by_node.pop(name, None)
        kept.versions, kept.position = versions, allocated.position
        return kept.by_node
