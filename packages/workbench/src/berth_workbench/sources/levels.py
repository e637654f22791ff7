"""How full every node was over the last hour, for scrubbing through it."""

import base64
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from berth.decisions.node_columns import NodeColumns

MAX_LEVELS = 360
"""An hour, at a sample every ten seconds."""
FULL = 200
"""The byte of a node of whose scarcest resource all is requested; what is more is told up to 255/200 of it."""


class _Levels(NamedTuple):
    at_s: float
    names: Sequence[str]
    levels: bytes


class LevelHistory:
    """The latest samples of all nodes: a byte each for what part of its pool's scarcest resource is requested."""

    __slots__ = ("_samples",)

    def __init__(self, max_samples: int = MAX_LEVELS) -> None:
        self._samples: deque[_Levels] = deque(maxlen=max_samples)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, at_s: float, columns: NodeColumns) -> None:
        """Keep a sample; the oldest makes room. Names are kept once for as long as they stay the same."""
        shares = np.array([share or 0.0 for share in columns.levels(columns.scarcest_by_pool)], dtype=np.float64)
        levels = np.clip(np.rint(shares * FULL), 0, 255).astype(np.uint8).tobytes()
        names: Sequence[str] = columns.names
        if self._samples and self._samples[-1].names == names:
            names = self._samples[-1].names
        self._samples.append(_Levels(at_s, names, levels))

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON values, as the map of a time line reads them."""
        nodes: list[dict[str, Any]] = []
        for at, sample in enumerate(self._samples):
            if not nodes or nodes[-1]["names"] is not sample.names:
                nodes.append({"from": at, "names": sample.names})
        return {
            "times": [sample.at_s for sample in self._samples],
            "nodes": nodes,
            "levels": [base64.b64encode(sample.levels).decode() for sample in self._samples],
            "full": FULL,
            "isWallTime": True,
        }
