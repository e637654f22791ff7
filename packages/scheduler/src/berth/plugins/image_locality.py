"""ImageLocality: prefer nodes that already have the pod's images; large images count more.

Upstream plugin ImageLocality, v1.36: init containers, regular containers and image volumes count. An image counts by
its size, scaled by the share of nodes that have it, so that pods are not all drawn to the few nodes that do.
Deviation: where nodes report different sizes for one name, each node's own is taken, not that of the node seen first.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import PodSpec
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, ColumnScorePlugin, Rows, ScorePlugin, Scores, SignaturePlugin
from berth.framework.promises import Dependency, Promises
from berth.plugins.resources.columns import row_count
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

MIN_SIZE_BYTES = 23 << 20
MAX_SIZE_BYTES_PER_CONTAINER = 1000 << 20
"""A sum of sizes at or under the first scores 0; one at or above the second, times containers, scores 100."""

Ints = NDArray[np.int64]


def normalized_image_name(name: str) -> str:
    """Return an image's name with its tag: `:latest` where it has neither tag nor digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def wanted_images(spec: PodSpec) -> Iterator[str]:
    """Return the images a pod needs, as often as it needs them."""
    for container in (*spec.init_containers, *spec.containers):
        yield normalized_image_name(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_image_name(volume.image.reference)


def scaled_size(size_bytes: int, nodes_with_image: int, nodes: int) -> int:
    """Return what an image counts for on a node that has it."""
    return int(size_bytes * (nodes_with_image / nodes))


def image_score(sum_bytes: int, containers: int) -> int:
    """Return the score for a sum of scaled sizes."""
    most = MAX_SIZE_BYTES_PER_CONTAINER * containers
    bounded = max(min(sum_bytes, most), MIN_SIZE_BYTES)
    return MAX_NODE_SCORE * (bounded - MIN_SIZE_BYTES) // (most - MIN_SIZE_BYTES)


def image_score_column(sum_bytes: Ints, containers: int) -> Scores:
    """Return the scores for sums of scaled sizes; both int64 (rows,)."""
    most = MAX_SIZE_BYTES_PER_CONTAINER * containers
    above = np.clip(sum_bytes, MIN_SIZE_BYTES, most) - MIN_SIZE_BYTES
    return above * MAX_NODE_SCORE // (most - MIN_SIZE_BYTES)


def scaled_sizes(sizes: Ints, nodes: int) -> Ints:
    """Return what an image of these sizes counts for on the nodes that have it, both int64 (nodes with image,)."""
    scaled: Ints = (sizes * (len(sizes) / nodes)).astype(np.int64)
    return scaled


class ImageLocality(ScorePlugin, ColumnScorePlugin, SignaturePlugin):
    """The plugin."""

    name: ClassVar[str] = "ImageLocality"
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE, Dependency.ALL_NODES}),
        ignores=frozenset({LABELS, REQUESTS}),
    )

    __slots__ = ("_handle", "_key")

    def __init__(self, args: None, handle: Handle) -> None:
        self._handle = handle
        self._key = object()

    def signature(self, pod: PodInfo) -> tuple[tuple[str, ...], int]:
        """Return the pod's images and how many containers share them."""
        found = pod.fragments.get(self._key)
        if found is None:
            found = pod.fragments[self._key] = self._wanted(pod.spec)
        assert isinstance(found, tuple)
        return found

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score the images that a node has."""
        images, containers = self.signature(pod)
        table = self._handle.cache.table
        sizes = {name: image.size_bytes for image in node.node.status.images for name in image.names}
        total = 0
        for image in images:
            if image in sizes:
                total += scaled_size(sizes[image], len(table.images.holders(image).rows), len(table))
        return image_score(total, containers)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        images, containers = self.signature(pod)
        total: Ints | None = None
        for image in images:
            holders = table.images.holders(image)
            if len(holders.rows):
                total = np.zeros(table.capacity, dtype=np.int64) if total is None else total
                total[holders.rows] += scaled_sizes(holders.sizes, len(table))  # right, as no row comes twice
        if total is None:
            return np.zeros(row_count(table, rows), dtype=np.int64)
        having = np.flatnonzero(total)  # as a rule few nodes
        total[having] = image_score_column(total[having], containers)
        return total[rows]

    def _wanted(self, spec: PodSpec) -> tuple[tuple[str, ...], int]:
        """Return the images that count, sorted, and among how many containers."""
        return tuple(sorted(wanted_images(spec))), len(spec.init_containers) + len(spec.containers)
