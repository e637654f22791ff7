"""Which nodes have an image, and how large it is there.

An inverted index: images come in by row, as nodes report them; rows come out by image. A question costs time in
proportion to the nodes that have the image, not to all nodes. Written by the node table, read by ImageLocality.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.node import ContainerImage
from berth.api.quantity import MAX_COUNTED, counted


class ImageHolders(NamedTuple):
    """The rows whose nodes have an image, each once and in no order, and its size in bytes on each of them."""

    rows: NDArray[np.intp]
    sizes: NDArray[np.int64]


_NOWHERE = ImageHolders(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64))


class ImageIndex:
    """Images by row, and rows by image."""

    __slots__ = ("_arrays", "_images", "_sizes")

    def __init__(self, capacity: int) -> None:
        self._images: list[tuple[ContainerImage, ...]] = [()] * capacity
        self._sizes: dict[str, dict[int, int]] = {}
        """By name, the size on each row that has the image; no name without rows."""
        self._arrays: dict[str, ImageHolders] = {}
        """The same as arrays, for names that were asked for, until a node changes what it reports about them.

        It holds no more numbers than `_sizes` does, so it needs no bound of its own.
        """

    def put(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Note the images of a row; none for a free row."""
        known = self._images[row]
        # A node's object changes far more often than its images.
        if images == known:
            return
        self._images[row] = images
        found = _sizes_by_name(images)
        if known:
            before = _sizes_by_name(known)
            for name in before.keys() - found.keys():
                self._drop(name, row)
            found = {name: size for name, size in found.items() if before.get(name) != size}
        sizes, arrays = self._sizes, self._arrays
        for name, size in found.items():
            on_rows = sizes.get(name)
            if on_rows is None:
                sizes[name] = {row: size}
            else:
                on_rows[row] = size
                if arrays:
                    arrays.pop(name, None)

    def holders(self, name: str) -> ImageHolders:
        """Return where an image is; the arrays are not to be written to."""
        found = self._arrays.get(name)
        if found is None:
            sizes = self._sizes.get(name)
            if sizes is None:
                return _NOWHERE
            found = self._arrays[name] = ImageHolders(
                np.fromiter(sizes.keys(), np.intp, len(sizes)), np.fromiter(sizes.values(), np.int64, len(sizes))
            )
        return found

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._images += [()] * (capacity - len(self._images))

    def _drop(self, name: str, row: int) -> None:
        self._arrays.pop(name, None)
        sizes = self._sizes[name]
        del sizes[row]
        if not sizes:
            del self._sizes[name]


def _sizes_by_name(images: tuple[ContainerImage, ...]) -> dict[str, int]:
    """Return the size of each name; if two images of a node share one, the last counts."""
    found: dict[str, int] = {}
    for image in images:
        size = image.size_bytes
        if not 0 <= size <= MAX_COUNTED:
            size = counted(size)
        for name in image.names:
            found[name] = size
    return found
