"""A plugin that only listens: for each pod it notes the features of the nodes that it fitted on, and which was chosen.

Enabled while a recording is replayed, it writes what ModelScore could learn from:

    cd examples/onnx_score
    berth replay /var/lib/berth/recording --config collect.yaml --plugin collect.py:Collect

The features of the args are those that ModelScore will be given.
"""

import atexit
from pathlib import Path

import msgspec
import numpy as np

from berth.plugin import CycleState, FeasibleNodes, Handle, PodInfo, Status
from berth_plugins.model_score import FeatureReader


class CollectArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Which features, and where the samples go."""

    features: tuple[str, ...] = ()
    path: str = "samples.npz"


class Collect:
    """PreScore and Reserve."""

    name = "Collect"
    args_type = CollectArgs

    def __init__(self, args: CollectArgs, handle: Handle) -> None:
        self._reader, self._path = FeatureReader(args.features), args.path
        self._looked_at: dict[str, tuple[list[str], np.ndarray]] = {}
        self.features: list[np.ndarray] = []
        """One matrix for each decision, a row for each node that the pod fitted on."""
        self.chosen: list[int] = []
        """Which row was chosen."""
        atexit.register(self.save)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        rows = nodes.row_array()
        self._looked_at[pod.uid] = (
            [nodes.table.names[row] for row in rows],
            self._reader.of_rows(pod, nodes.table, rows),
        )
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        names, features = self._looked_at.pop(pod.uid, ([], np.zeros((0, 0))))
        if node_name in names:
            self.features.append(features)
            self.chosen.append(names.index(node_name))
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass

    def save(self) -> None:
        """Write the samples down: all rows in one matrix, where each decision begins, and the chosen rows in it."""
        if self.chosen:
            starts = np.cumsum([0, *map(len, self.features)])
            np.savez(Path(self._path), features=np.concatenate(self.features), starts=starts, chosen=self.chosen)
