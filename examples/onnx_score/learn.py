"""Learns a score from the samples that `collect.py` has written, and writes it as an ONNX file for ModelScore.

    pip install -r examples/onnx_score/requirements.txt
    python examples/onnx_score/learn.py samples.npz model.onnx

The model is linear: each feature has a weight, such that the nodes that were chosen come out best (a softmax over the
nodes of each decision, by gradient descent). What is the same for all nodes of a decision, such as the pod's requests,
it cannot use; replace `train` by whatever can.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def train(features, starts, chosen, steps=500, rate=0.5, decay=1e-3):
    """Return a weight for each feature."""
    spread = features.std(axis=0)
    spread[spread == 0] = 1.0
    scaled, weights = features / spread, np.zeros(features.shape[1])
    decision = np.repeat(np.arange(len(chosen)), np.diff(starts))  # of each row
    taken = scaled[starts[:-1] + chosen].sum(axis=0)
    for _ in range(steps):
        score = scaled @ weights
        score -= np.maximum.reduceat(score, starts[:-1])[decision]
        likely = np.exp(score)
        likely /= np.add.reduceat(likely, starts[:-1])[decision]
        weights += rate * ((taken - likely @ scaled) / len(chosen) - decay * weights)
    return weights / spread


def agreement(features, starts, chosen, weights):
    """Return of how many decisions the chosen node is among the best."""
    score = features @ weights
    best = np.maximum.reduceat(score, starts[:-1])
    return float((score[starts[:-1] + chosen] >= best - 1e-9).mean())


def model_of(weights):
    """Return an ONNX model that multiplies a matrix of features by the weights."""
    count = len(weights)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["features", "weights"], ["scores"])],
        "score",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["nodes", count])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["nodes", 1])],
        [numpy_helper.from_array(weights.astype(np.float32).reshape(count, 1), "weights")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def main(samples, path):
    with np.load(samples) as found:
        features, starts, chosen = (found[name] for name in ("features", "starts", "chosen"))
    features = features.astype(np.float64)
    weights = train(features, starts, chosen)
    onnx.save(model_of(weights), path)
    print(f"{len(chosen)} decisions, {agreement(features, starts, chosen, weights):.0%} of them the same by the model")


if __name__ == "__main__":
    main(*sys.argv[1:])
