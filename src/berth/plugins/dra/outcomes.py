"""What searches have found on nodes, kept for the next pod whose claims ask for the same.

Kept by what the claims ask for, then by node; dropped for the nodes that see a pool of which something was taken or
given back since, and all of it where slices or classes have changed. Asked by the plugin. Decisions never depend on
it: what is kept is what the same search would find again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from berth.api.dra import ResourceClaim
from berth.api.node import Node
from berth.api.pod import Container
from berth.api.recent import Recent, json_size
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
    __slots__ = ("by_node", "position")

    def __init__(self, position: int) -> None:
        self.by_node: dict[str, NodeOutcome] = {}
        self.position = position


class Outcomes:
    """Outcomes by what was asked for; the most recently used are kept."""

    __slots__ = ("_kept", "_versions")

    def __init__(self, max_asked: int = 64) -> None:
        self._kept: Recent[bytes, _Kept] = Recent(max_asked)
        self._versions: tuple[int, ...] = ()

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
        if versions != self._versions:  # outcomes hold slices and classes, so that those are let go of, too
            self._versions = versions
            self._kept.clear()
        asked = [(container.restart_policy, container.resources.requests) for container in containers]
        key = _ENCODER.encode(([claim.spec for claim in claims], asked))
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept(allocated.position)
            # Outcomes hold the claims that were looked at, with all that they say beside their specs.
            self._kept.put(key, kept, json_size((key, claims)))
        touched = allocated.touched_since(kept.position)
        if touched is None:
            kept.by_node = {}
        else:
            for pool in touched:
                nodes = inventory.nodes_of(pool)
                if nodes is None:
                    kept.by_node = {}
                    break
                for name in nodes:
                    kept.by_node.pop(name, None)
        kept.position = allocated.position
        return kept.by_node
