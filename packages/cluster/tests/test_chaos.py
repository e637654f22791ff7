"""`berth chaos` on a running cluster: what it does is seen there, and can be taken back."""

import asyncio
import itertools
import time
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from berth.api.resources import RESOURCES
from berth.cli import main
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.serving.delay import ApiDelay
from berth_cluster.storage.store import Store
from tests.e2e.processes import Api
from tests.waiting import eventually

UNREACHABLE = [("node.kubernetes.io/unreachable", "NoExecute"), ("node.kubernetes.io/unreachable", "NoSchedule")]


@pytest.fixture
def chaos(unscheduled_cluster):
    def run(*arguments, code=0):
        done = CliRunner().invoke(main, ["chaos", "--kubeconfig", str(unscheduled_cluster), *arguments])
        assert done.exit_code == code, done.output
        return done.output.strip()

    yield run
    for name in ("node-0", "node-1", "node-2"):
        run("node-up", name)
    run("slow-api", "0")
    api = Api(unscheduled_cluster)
    eventually(lambda: not any(taints(api, f"node-{number}") for number in range(3)))


def taints(api, name):
    spec = api.call("get", RESOURCES["Node"], "", name)["spec"]
    return sorted((one["key"], one["effect"]) for one in spec.get("taints") or [])


def test_a_node_goes_down_and_comes_back(chaos, unscheduled_cluster):
    api = Api(unscheduled_cluster)
    assert chaos("node-down", "node-1", "--at-once") == "node-1 down"
    eventually(lambda: taints(api, "node-1") == UNREACHABLE)
    assert chaos("node-up", "node-1") == "node-1 up"
    eventually(lambda: taints(api, "node-1") == [])


def test_a_zone_goes_down(chaos, unscheduled_cluster):
    api = Api(unscheduled_cluster)
    assert chaos("zone-down", "zone-c", "--at-once") == "node-2 down"
    eventually(lambda: taints(api, "node-2") == UNREACHABLE)
    assert (taints(api, "node-0"), chaos("zone-up", "zone-c")) == ([], "node-2 up")


@pytest.mark.parametrize("milliseconds", ["soon", "-1", "99999999"])
def test_a_time_that_is_none_is_explained(chaos, milliseconds):
    assert "slow-api takes one number of milliseconds" in chaos("slow-api", "--", milliseconds, code=2)


def test_what_is_not_there_is_explained_and_nothing_is_done(chaos, unscheduled_cluster):
    assert chaos("node-down", "node-0", "nobody", code=1) == "Error: there is no node nobody"
    assert chaos("zone-down", "nowhere", code=1).startswith("Error: no node is in zone nowhere; there are zone-a, zone")
    assert "there is no node node-00; did you mean node-0" in chaos("node-down", "node-00", code=1)
    assert "no node is in zone zone-q; did you mean zone-" in chaos("zone-down", "zone-q", code=1)
    annotations = Api(unscheduled_cluster).call("get", RESOURCES["Node"], "", "node-0")["metadata"]["annotations"]
    assert "berth.dev/down-since" not in annotations


def test_a_slow_api_server_answers_late(chaos, unscheduled_cluster):
    api = Api(unscheduled_cluster)
    for milliseconds, words in (("200", "each request waits 200 ms"), ("300", "each request waits 300 ms")):
        assert chaos("slow-api", milliseconds) == words
    before = time.monotonic()
    api.call("get", RESOURCES["Node"], "", "node-0")
    assert time.monotonic() - before >= 0.3
    assert chaos("slow-api", "0") == "requests do not wait"


@pytest.mark.parametrize(
    ("data", "seconds"), [({"slow-api-ms": "250"}, 0.25), ({"slow-api-ms": "soon"}, 0), ({}, 0), (None, 0)]
)
def test_how_long_requests_wait(data, seconds):
    uids = itertools.count(1)
    store = Store(lambda: datetime.now(UTC), uid_factory=lambda: f"uid-{next(uids)}")
    delay, config_maps = ApiDelay(store), resource_of("ConfigMap")
    other = {"metadata": {"name": "berth-chaos", "namespace": "default"}, "data": {"slow-api-ms": "9000"}}
    store.create(config_maps, "default", other)
    store.create(config_maps, "kube-system", {"metadata": {"name": "berth-chaos"}, "data": {"slow-api-ms": "100"}})
    assert delay.seconds == ApiDelay(store).seconds == 0.1  # the second one is that of a server that is started again
    found = store.get(config_maps, "kube-system", "berth-chaos")
    store.update(config_maps, "kube-system", "berth-chaos", {**found, "data": data})
    assert delay.seconds == seconds
    store.delete(config_maps, "kube-system", "berth-chaos")
    assert delay.seconds == 0
    asyncio.run(delay.wait())
