"""Which images lie on which nodes, and how large they are there.

An image gets a column when a pod that wants it is scored first, and is kept up to date from then on.
"""

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from berth.api.node import ContainerImage
from berth.api.quantity import counted

Int64 = NDArray[np.int64]


MAX_COLUMNS = 512
"""How many images' columns are kept, the latest asked for; each costs 8 bytes a node."""


class ImageIndex:
    """Images by row, and a size column for each image that was asked for."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, capacity: int) -> None:
        self._rows: list[dict[str, int]] = [{} for _ in range(capacity)]
        self._columns: OrderedDict[str, Int64] = OrderedDict()

    def put(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Note the images of a row; none for one that is free."""
        self._rows[row] = {name: counted(image.size_bytes) for image in images for name in image.names}
        for name, column in self._columns.items():
            column[row] = self._rows[row].get(name, ABSENT)

    def sizes(self, name: str) -> Int64:
        """Return the size in bytes of an image on each row, `ABSENT` where the node does not have it."""
        column = self._columns.get(name)
        if column is None:
            column = np.array([images.get(name, ABSENT) for images in self._rows], dtype=np.int64)
            self._columns[name] = column
            if len(self._columns) > MAX_COLUMNS:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(name)
        return column

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        more = capacity - len(self._rows)
        self._rows += [{} for _ in range(more)]
        for name, column in self._columns.items():
            self._columns[name] = np.pad(column, (0, more), constant_values=ABSENT)


ABSENT = -1
