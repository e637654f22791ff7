"""ModelScore: the score that a model gives, read from an ONNX file.

The model takes one float32 matrix with a row for each node and a column for each feature of the args, in their order,
and gives one number a row, the higher the better; rows must not depend on each other. What it gives is stretched over
the nodes that are left. Amounts are in cores of CPU, GiB of memory and ephemeral storage, and units of all else.

    pod.requests/RESOURCE        what the pod asks for          node.free/RESOURCE         allocatable less requested
    pod.priority                 its priority                   node.allocatable/RESOURCE  what the node has for pods
    pod.label/KEY=VALUE          1 with the label, else 0       node.requested/RESOURCE    what pods there ask for
                                                                node.pods                  how many pods are there
                                                                node.label/KEY=VALUE       1 with the label, else 0

A node's own features are as they are before the pod comes. The file is read when the scheduler starts, and when its
configuration is read again.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Dependency,
    Handle,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    PodInfo,
    Promises,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    Status,
    error,
    invalid,
    required,
)
from berth_plugins.normalize import stretched

Features = NDArray[np.float32]

SCALE = 1000
"""Scores are whole numbers, so a model's count to three decimals: what lies below depends on the batch."""
LARGEST = 2.0**40
UNITS = {"cpu": 1000.0, "memory": 2.0**30, "ephemeral-storage": 2.0**30}
NOT_INSTALLED = "cannot read {path}: it needs onnxruntime, which pip install 'berth-scheduler-plugins[onnx]' installs"
NO_FILE = "cannot read {path}: {why}"
WRONG_INPUTS = "{path}: the model has {count} inputs, and one is expected: the matrix of features"
WRONG_WIDTH = "{path}: the model takes {width} features, and the args name {count}"
NOT_FINITE = "the model gave no number for {count} of {rows} node(s)"
WRONG_SHAPE = "the model gave an answer of shape {shape} for {rows} node(s)"


class Model(Protocol):
    """What is asked for scores: an ONNX file that was read, or in tests anything else."""

    def run(self, features: Features) -> NDArray[np.floating]:
        """Return the scores of nodes, (rows,) or (rows, 1), given their features, float32 (rows, features)."""


class OnnxModel:
    """A model that onnxruntime runs, in the thread that asks it."""

    __slots__ = ("_input", "_session")

    def __init__(self, path: str, width: int) -> None:
        """Read a file. Raises `ValueError` where that cannot be done, or the model takes something else."""
        try:
            import onnxruntime
        except ImportError:
            raise ValueError(NOT_INSTALLED.format(path=path)) from None
        try:
            content = Path(path).read_bytes()
        except OSError as failed:
            raise ValueError(NO_FILE.format(path=path, why=failed.strerror or failed)) from None
        options = onnxruntime.SessionOptions()
        # One pod after the other is scored, in little more than microseconds: threads would only wait for each other.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as failed:  # onnxruntime's own, which have no common class
            raise ValueError(NO_FILE.format(path=path, why=str(failed).splitlines()[0])) from None
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise ValueError(WRONG_INPUTS.format(path=path, count=len(inputs)))
        columns = inputs[0].shape[-1] if inputs[0].shape else None
        if isinstance(columns, int) and columns != width:
            raise ValueError(WRONG_WIDTH.format(path=path, width=columns, count=width))
        self._input = inputs[0].name

    def run(self, features: Features) -> NDArray[np.floating]:
        """Return the model's first output."""
        found: NDArray[np.floating] = np.asarray(self._session.run(None, {self._input: features})[0])
        return found


class Feature(NamedTuple):
    """A feature: whose (`pod` or `node`), which, and of what."""

    whose: str
    which: str
    of: str
    value: str


KNOWN = frozenset(
    {
        ("pod", "requests"), ("pod", "priority"), ("pod", "label"),
        ("node", "free"), ("node", "allocatable"), ("node", "requested"), ("node", "pods"), ("node", "label"),
    }
)  # fmt: skip
ALONE = frozenset({"priority", "pods"})
"""The features that are of nothing in particular."""


def feature_of(text: str) -> Feature | None:
    """Return the feature that is meant; None where there is none of this name."""
    name, _, of = text.partition("/")
    whose, _, which = name.partition(".")
    if (whose, which) not in KNOWN or bool(of) == (which in ALONE):
        return None
    key, sign, value = of.partition("=") if which == "label" else (of, "", "")
    return None if which == "label" and not (key and sign) else Feature(whose, which, key, value)


class ModelScoreArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where the model is, and what it is given."""

    path: str = ""
    features: tuple[str, ...] = ()

    def validate(self, path: str) -> Iterable[str]:
        """Refuse no path, no features, and features that there are not."""
        if not self.path:
            yield required(f"{path}.path", "the ONNX file")
        if not self.features:
            yield required(f"{path}.features", "what the model is given of pod and node")
        for index, text in enumerate(self.features):
            if feature_of(text) is None:
                known = "pod.requests/RESOURCE, pod.priority, pod.label/KEY=VALUE, node.free/RESOURCE, …"
                yield invalid(f"{path}.features[{index}]", text, f"is no feature, as these are: {known}")


class FeatureReader:
    """Reads features, float32, of a pod and of nodes."""

    __slots__ = ("_features",)

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are features that `feature_of` knows."""
        found = [feature_of(name) for name in names]
        self._features = [feature for feature in found if feature is not None]

    def of_pod(self, pod: PodInfo) -> tuple[float, ...]:
        """Return the features of the pod alone, in order."""
        return tuple(_of_pod(feature, pod) for feature in self._features if feature.whose == "pod")

    def of_node(self, pod: PodInfo, node: NodeView) -> Features:
        """Return all features for one node, (1, features)."""
        given = (_of_pod(each, pod) if each.whose == "pod" else _of_node(each, node) for each in self._features)
        return np.array([list(given)], dtype=np.float32)

    def of_rows(self, pod: PodInfo, table: NodeTable, rows: Rows) -> Features:
        """Return all features for many rows, (rows, features)."""
        found = np.zeros((len(table.valid[rows]), len(self._features)), dtype=np.float32)
        for place, feature in enumerate(self._features):
            found[:, place] = _of_pod(feature, pod) if feature.whose == "pod" else _of_rows(feature, table, rows)
        return found


def _of_pod(feature: Feature, pod: PodInfo) -> float:
    if feature.which == "priority":
        return float(pod.priority)
    if feature.which == "label":
        return float(pod.labels.get(feature.of) == feature.value)
    return pod.requests.get(feature.of, 0) / UNITS.get(feature.of, 1.0)


def _of_node(feature: Feature, node: NodeView) -> float:
    if feature.which == "pods":
        return float(len(node.pods))
    if feature.which == "label":
        return float(node.labels.get(feature.of) == feature.value)
    has, asked = node.allocatable.get(feature.of, 0), node.requested.get(feature.of, 0)
    amount = {"free": has - asked, "allocatable": has, "requested": asked}[feature.which]
    return amount / UNITS.get(feature.of, 1.0)


def _of_rows(feature: Feature, table: NodeTable, rows: Rows) -> NDArray[np.generic] | float:
    if feature.which == "pods":
        return table.pod_count[rows]
    if feature.which == "label":
        column = table.label(feature.of)
        has_label: NDArray[np.bool_] = column.ids[rows] == column.intern(feature.value)
        return has_label
    index = table.resource_index.get(feature.of)
    if index is None:
        return 0.0
    has, asked = table.allocatable[index][rows], table.requested[index][rows]
    amounts = {"free": has - asked, "allocatable": has, "requested": asked}
    found: NDArray[np.float64] = amounts[feature.which] / UNITS.get(feature.of, 1.0)
    return found


@final
class ModelScore(ScorePlugin, ColumnScorePlugin, NormalizeScorePlugin, SignaturePlugin):
    """Score. Scores are kept by the features of the pod; the model is asked again about nodes that have changed."""

    name: ClassVar[str] = "ModelScore"
    args_type: ClassVar[type[msgspec.Struct]] = ModelScoreArgs
    promises: ClassVar[Promises] = Promises(score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}))
    open: ClassVar[Callable[[str, int], Model]] = OnnxModel
    """Reads a model, given its path and how many features it is given."""

    def __init__(self, args: ModelScoreArgs, handle: Handle) -> None:
        self._features = FeatureReader(args.features)
        self._model: Model = type(self).open(args.path, len(args.features))

    def signature(self, pod: PodInfo) -> tuple[float, ...]:
        """Return what of the pod the model is given."""
        return self._features.of_pod(pod)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int | Status:
        """Return what the model says of a node."""
        found = self._scores(self._features.of_node(pod, node))
        return found if isinstance(found, Status) else int(found[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores | Status:
        """Return what the model says of many rows; of rows that hold no node it may say anything."""
        features = self._features.of_rows(pod, table, rows)
        is_node = table.valid[rows]
        if is_node.all():
            return self._scores(features)
        found = self._scores(features[is_node])
        if isinstance(found, Status):
            return found
        scores = np.zeros(len(features), dtype=np.int64)
        scores[is_node] = found
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Stretch the model's answers over the nodes that are left."""
        return stretched(scores)

    def _scores(self, features: Features) -> Scores | Status:
        rows = len(features)
        answer = np.asarray(self._model.run(features)) if rows else np.zeros(0)
        if answer.size != rows:
            return error(WRONG_SHAPE.format(shape=answer.shape, rows=rows))
        numbers = answer.reshape(rows).astype(np.float64)
        is_number = np.isfinite(numbers)
        if not is_number.all():
            return error(NOT_FINITE.format(count=int(rows - is_number.sum()), rows=rows))
        found: Scores = np.rint(np.clip(numbers, -LARGEST, LARGEST) * SCALE).astype(np.int64)
        return found
