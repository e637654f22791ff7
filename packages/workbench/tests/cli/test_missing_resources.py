"""A resource that no node has is told as such, with the name that was probably meant, by every answer it decides."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod

NODES = [
    make_node(f"n{number}").capacity({"nvidia.com/gpu": "4"}, cpu="8", memory="8Gi", pods="110").document
    for number in (1, 2)
]
TOLD = "no node has nvidia.com/gpus, which ml/train requests; did you mean nvidia.com/gpu?"


def job_of(resource):
    requests = {"cpu": "1", resource: "1"}
    container = {"name": "c", "image": "x", "resources": {"requests": requests, "limits": requests}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml"},
        "spec": {"parallelism": 3, "completions": 3, "template": {"spec": spec}},
    }  # fmt: skip


def pod_of(resource):
    requests = {"cpu": "1", resource: "1"}
    return make_pod("train", namespace="ml").request(requests).document


GROUPS = {"groups": [{"name": "g", "like": "n1", "max": 3}]}


@pytest.fixture
def berth(tmp_path):
    def go(*words):
        args = []
        for number, word in enumerate(words):
            if not isinstance(word, str):
                (tmp_path / f"{number}.json").write_text(json.dumps(word))
                word = str(tmp_path / f"{number}.json")
            args.append(word)
        return CliRunner().invoke(main, args)

    return go


def listed(*objects):
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def told(result):
    """All that was said, in one line."""
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    "words",
    [("capacity",), ("whatif",), ("autoscale", "--groups", GROUPS), ("explain", "--what-would-help")],
    ids=lambda words: words[0],
)
def test_of_manifests_it_is_told_once(berth, words):
    said = told(berth(*words, "--cluster", listed(*NODES), "-f", pod_of("nvidia.com/gpus"))).lower()
    assert said.count(TOLD) == 1, said
    assert "no node has" not in told(berth(*words, "--cluster", listed(*NODES), "-f", pod_of("nvidia.com/gpu"))).lower()


@pytest.mark.parametrize(
    "words",
    [("whatif",), ("autoscale", "--groups", GROUPS), ("explain", "ml/train", "--what-would-help"), ("wait",)],
    ids=lambda words: words[0],
)
def test_of_pending_pods_it_is_told_once(berth, words):
    said = told(berth(*words, "--cluster", listed(*NODES, pod_of("nvidia.com/gpus")))).lower()
    assert said.count(TOLD) == 1, said


@pytest.mark.parametrize("words", [("capacity",), ("whatif",)], ids=lambda words: words[0])
def test_of_a_workload_as_well(berth, words):
    said = told(berth(*words, "--cluster", listed(*NODES), "-f", job_of("nvidia.com/gpus")))
    assert said.count("no node has nvidia.com/gpus, which") == 1, said


def test_the_same_resource_of_another_domain_may_have_been_meant(berth):
    said = told(berth("capacity", "--cluster", listed(*NODES), "-f", pod_of("amd.com/gpu")))
    assert "no node has amd.com/gpu, which ml/train requests; did you mean nvidia.com/gpu?" in said


def test_what_a_group_of_nodes_would_bring_is_not_missing(berth):
    template = {"status": {"allocatable": {"cpu": "8", "pods": "110", "amd.com/gpu": "1"}}}
    groups = {"groups": [{"name": "g", "template": template}]}
    said = told(berth("autoscale", "--groups", groups, "--cluster", listed(*NODES), "-f", pod_of("amd.com/gpu")))
    assert "no node has" not in said and "1 like g" in said


def test_what_devices_stand_for_is_not_missing(berth):
    device_class = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }  # fmt: skip
    for resource in ("example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"):
        said = told(berth("capacity", "--cluster", listed(*NODES, device_class), "-f", pod_of(resource)))
        assert "no node has" not in said
