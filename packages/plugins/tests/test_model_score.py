"""ModelScore: what a model says of a node's features counts, features are what the page says, and errors are told.

What needs no model file asks a model of this file's own; onnxruntime and onnx are needed at the end only.
"""

import random
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from berth.testing import VirtualCluster, make_node, make_pod
from berth_plugins.model_score import FeatureReader, ModelScore, OnnxModel, feature_of

PLUGINS = {"ModelScore": ModelScore}
FEATURES = (
    "pod.requests/cpu", "node.free/cpu", "pod.priority", "node.label/disk=ssd", "pod.label/app=web", "node.pods",
    "node.allocatable/memory", "node.requested/memory", "node.free/nvidia.com/gpu", "pod.requests/ephemeral-storage",
)  # fmt: skip
EXAMPLE = Path(__file__).parents[3] / "examples" / "onnx_score"


class Linear:
    """A model that multiplies features by weights, and notes what it was asked."""

    def __init__(self, *weights):
        self.weights, self.asked = np.array(weights, dtype=np.float32), []

    def run(self, features):
        assert features.dtype == np.float32
        self.asked.append(features.copy())
        return (features @ self.weights).reshape(-1, 1)


def scored(config, monkeypatch, model, *features, **options):
    monkeypatch.setattr(ModelScore, "open", lambda path, width: model)
    document = config("ModelScore", args={"path": "model.onnx", "features": list(features)})
    document["profiles"][0]["plugins"]["multiPoint"]["enabled"][0]["weight"] = 200  # more than NodeResourcesFit can say
    return VirtualCluster(plugins=PLUGINS, config=document, **options)


def node(name, cpu=8, **more):
    return make_node(name).capacity({"cpu": str(cpu), "memory": "32Gi", "pods": 99, **more})


@pytest.mark.parametrize(("weight", "chosen"), [(1.0, "large"), (-1.0, "small")])
def test_the_best_node_by_the_model_is_chosen(config, monkeypatch, weight, chosen):
    cluster = scored(config, monkeypatch, Linear(weight), "node.free/cpu")
    for each in (node("small", 4), node("mid", 6), node("large", 8)):
        cluster.put(each)
    cluster.put(make_pod("p").request(cpu="1"))
    assert cluster.run().nodes_of() == {"p": chosen}


def test_features_are_what_is_said_of_them_in_both_forms():
    cluster = VirtualCluster()
    cluster.put(node("n1", 8, **{"nvidia.com/gpu": 2}).label("disk", "ssd"))
    cluster.put(node("n2", 4).label("disk", "hdd"))
    cluster.put(make_pod("there").request({"cpu": "500m", "memory": "1536Mi", "nvidia.com/gpu": "1"}).node("n1"))
    pod = make_pod("p").request({"cpu": "250m", "ephemeral-storage": "2Gi"}).priority(7).label("app", "web").info()
    reader, table = FeatureReader(FEATURES), cluster.core.cache.table
    expected = {
        "n1": [0.25, 7.5, 7, 1, 1, 1, 32, 1.5, 1, 2],
        "n2": [0.25, 4.0, 7, 0, 1, 0, 32, 0.0, 0, 2],
    }
    rows = table.rows()
    names = [table.names[row] for row in rows]
    assert reader.of_rows(pod, table, rows).tolist() == [expected[name] for name in names]
    assert [reader.of_node(pod, table.view(row))[0].tolist() for row in rows] == [expected[name] for name in names]
    assert reader.of_pod(pod) == (0.25, 7, 1, 2)


@pytest.mark.parametrize("seed", range(8))
def test_decisions_are_those_of_a_model_that_is_asked_by_hand(config, monkeypatch, seed):
    rng = random.Random(seed)
    weights = [rng.uniform(-1, 1) for _ in FEATURES]
    model = Linear(*weights)
    cluster = scored(config, monkeypatch, model, *FEATURES)
    for number in range(6):
        made = node(f"n{number}", rng.randint(2, 16), **{"nvidia.com/gpu": rng.randint(0, 3)})
        cluster.put(made.label("disk", rng.choice(["ssd", "hdd"])))
    by_hand = Linear(*weights)
    for number in range(25):
        pod = make_pod(f"p{number}").request({"cpu": f"{rng.randint(1, 40)}00m", "memory": "1Gi"})
        if rng.random() < 0.5:
            pod.label("app", "web").priority(rng.randint(0, 3))
        reader, table, says = FeatureReader(FEATURES), cluster.core.cache.table, {}
        for row in table.rows().tolist():
            view = table.view(row)
            if view.allocatable["cpu"] - view.requested["cpu"] >= pod.info().requests["cpu"]:
                says[view.name] = round(float(by_hand.run(reader.of_node(pod.info(), view))[0, 0]) * 1000)
        cluster.put(pod)
        chosen = cluster.run().nodes_of()[f"p{number}"]
        if not says:
            assert chosen == ""
            continue
        low, high = min(says.values()), max(says.values())
        assert low == high or (says[chosen] - low) * 100 // (high - low) >= 99  # as rounding may have it


def test_only_nodes_that_have_changed_are_asked_about_again(config, monkeypatch):
    model = Linear(1.0)
    cluster = scored(config, monkeypatch, model, "node.free/cpu", check_promises=0)
    for number in range(40):
        cluster.put(node(f"n{number}", 8 + number))
    for number in range(5):
        cluster.put(make_pod(f"p{number}").request(cpu="1"))
        cluster.run()
    assert [len(each) for each in model.asked][2:] == [1, 1, 1]  # a column is kept from when it is asked for again


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.full((2, 1), np.nan), "the model gave no number for 2 of 2 node(s)"),
        (np.zeros((2, 3)), "the model gave an answer of shape (2, 3) for 2 node(s)"),
    ],
)
def test_what_a_model_may_not_say_is_an_error_that_says_so(config, monkeypatch, answer, words):
    model = Linear(1.0)
    model.run = lambda features: answer
    cluster = scored(config, monkeypatch, model, "node.free/cpu")
    for name in ("a", "b"):
        cluster.put(node(name))
    cluster.put(make_pod("p").request(cpu="1"))
    cluster.run()
    assert words in cluster.core.trace["default/p"].message


@pytest.mark.parametrize(
    "text", ["", "pod", "pod.cpu", "pod.requests", "pod.requests/", "pod.priority/x", "node.label/disk",
             "node.label/=x", "node.priority", "pods.requests/cpu", "node.pods/x"]
)  # fmt: skip
def test_what_is_no_feature_is_refused(config, text):
    assert feature_of(text) is None
    with pytest.raises(ValueError, match=r"features\[0\]"):
        VirtualCluster(plugins=PLUGINS, config=config("ModelScore", args={"path": "m", "features": [text]}))


@pytest.mark.parametrize("args", [{"path": "m"}, {"features": ["pod.priority"]}])
def test_path_and_features_are_needed(config, args):
    with pytest.raises(ValueError, match="Required value"):
        VirtualCluster(plugins=PLUGINS, config=config("ModelScore", args=args))


def test_without_onnxruntime_it_is_said_what_to_install(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"it needs onnxruntime, which pip install 'berth-scheduler-plugins\[onnx\]'"):
        VirtualCluster(plugins=PLUGINS, config=config("ModelScore", args={"path": "m", "features": ["pod.priority"]}))


def test_a_file_that_is_none_is_told_of(tmp_path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(ValueError, match="No such file"):
        OnnxModel(str(tmp_path / "none.onnx"), 1)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"cannot read .*bad\.onnx"):
        OnnxModel(str(tmp_path / "bad.onnx"), 1)


def test_the_example_learns_what_decisions_go_by(config, tmp_path, monkeypatch, capsys):
    """The recorded decisions prefer the node with the most free CPU; so does the model, asked by onnxruntime."""
    for name in ("onnx", "onnxruntime"):
        pytest.importorskip(name)
    collect = runpy.run_path(str(EXAMPLE / "collect.py"))["Collect"]
    features = ["node.free/cpu", "node.pods", "node.allocatable/memory"]
    samples, path = tmp_path / "samples.npz", tmp_path / "model.onnx"
    document = config("Collect", args={"features": features, "path": str(samples)})
    cluster = VirtualCluster(plugins={"Collect": collect}, config=document)
    rng = random.Random(1)
    for number in range(8):
        cluster.put(node(f"n{number}", 60))
        cluster.put(make_pod(f"old{number}").request(cpu=str(rng.randint(1, 30)), memory="1Mi").node(f"n{number}"))
    for number in range(60):
        cluster.put(make_pod(f"p{number}").request(cpu=str(rng.randint(1, 4)), memory="1Mi"))
        cluster.run()
    next(each.plugin for each in cluster.core.profiles["default-scheduler"].plugins if each.name == "Collect").save()
    runpy.run_path(str(EXAMPLE / "learn.py"))["main"](str(samples), str(path))
    said = capsys.readouterr().out
    assert said.startswith("60 decisions, ") and int(said.split()[2].rstrip("%")) >= 50  # by chance: 12%
    with pytest.raises(ValueError, match="the model takes 3 features, and the args name 1"):
        OnnxModel(str(path), 1)

    document = config("ModelScore", args={"path": str(path), "features": features})
    document["profiles"][0]["plugins"]["multiPoint"]["enabled"][0]["weight"] = 200
    cluster = VirtualCluster(plugins=PLUGINS, config=document)
    for each in (node("small", 20), node("large", 60), node("mid", 40)):
        cluster.put(each)
    cluster.put(make_pod("p").request(cpu="1"))
    assert cluster.run().nodes_of() == {"p": "large"}
