"""`docs/embedded-cluster.md` tells the truth: its examples do what it says, and its tables list what is there."""

import re
import shlex
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import yaml

from berth.cli import main
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import PODS, RESOURCE_TYPES, resource_of
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.pump import ControllerPump
from berth_cluster.embedded import ClusterSettings, create_nodes, make_controllers
from berth_cluster.hollow.drivers import create_driver_objects
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from packages.cluster.tests.controllers.world import World, condition
from tests.paths import ROOT
from tests.runtime.world import World as LiveWorld
from tests.runtime.world import configuration, scheduling
from tests.waiting import until

TEXT = (ROOT / "docs/embedded-cluster.md").read_text()
PLUGINS = (ROOT / "docs/plugins-cookbook.md").read_text()
HOSTNAME = "kubernetes.io/hostname"


def blocks(language, text=TEXT):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def example(name):
    """The objects of the block in which an object of that name stands."""
    [found] = [docs for docs in map(list, map(yaml.safe_load_all, blocks("yaml"))) if name in map(_name, docs)]
    return found


def _name(obj):
    return obj["metadata"]["name"]


def section(title):
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title):
    """The cells of the table in a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


def apply(world, objects):
    for obj in objects:
        kind = resource_of(obj["kind"])
        world.store.create(kind, "default" if kind.namespaced else "", obj)


class Cluster(LiveWorld):
    """What `berth up` runs, without sockets."""

    def __init__(self, nodes, devices=0):
        super().__init__(nodes=0)
        create_driver_objects(self.store, devices)
        create_nodes(self.store, NodeTemplate(), nodes)
        self.manager = ControllerManager(self.store)
        self.manager.add(make_controllers(self.manager.client, ClusterSettings(devices_per_node=devices)))

    def find(self, kind, name, namespace="default"):
        return self.store.find(resource_of(kind), namespace, name)

    def phase(self, kind, name):
        return ((self.find(kind, name) or {}).get("status") or {}).get("phase")


@asynccontextmanager
async def running(nodes=3, devices=0):
    cluster = Cluster(nodes, devices)
    pump = ControllerPump(cluster.store, cluster.manager)
    pump.start()
    try:
        async with scheduling(cluster):
            yield cluster
    finally:
        await pump.stop()


# --- the examples ----------------------------------------------------------------------------------------------------


def test_every_example_is_run_by_a_test_here():
    tested = Path(__file__).read_text()
    first = [_name(docs[0]) for docs in map(list, map(yaml.safe_load_all, blocks("yaml")))]
    assert len(first) == 9
    assert [name for name in first if f'example("{name}")' not in tested] == []
    assert (len(blocks("python")), len(blocks("console"))) == (1, 1)


def test_the_commands_take_these_options():
    lines = [line.removeprefix("$ berth ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines:
        name, *arguments = shlex.split(line)
        _command(name).make_context(name, arguments)
    commands = map(_command, ("up", "apiserver", "chaos"))
    options = {option for command in commands for one in command.params for option in one.opts}
    assert set(re.findall(r"`(--[a-z-]+)", TEXT)) <= options


def _command(name):
    return main.get_command(click.Context(main), name)


def test_a_cluster_in_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "document"}
    exec(blocks("python")[0], names)
    assert names["names"] == ["worker-0", "worker-1"]
    url, kubeconfig = capsys.readouterr().out.split()
    assert url.startswith("https://127.0.0.1:")
    assert (tmp_path / kubeconfig).exists()


async def test_a_node_of_ones_own_shape():
    async with running() as cluster:
        apply(cluster, example("big-0"))
        await until(lambda: cluster.phase("Pod", "training") == "Running")
        assert cluster.node_of("training") == "big-0"
        assert cluster.find("Node", "big-0")["status"]["allocatable"]["cpu"] == "60"


def test_a_node_that_is_not_hollow_runs_nothing():
    world = World(nodes=0, binds=False)
    node, pod = example("big-0")
    apply(world, [{**node, "metadata": {**node["metadata"], "annotations": {}}}, pod])
    world.bind(world.get("Pod", "training"), "big-0")
    world.run(5)
    assert world.status("Pod", "training")["phase"] == "Pending"


def test_a_pod_that_does_not_fit_is_refused_by_its_node():
    world = World(nodes=0, binds=False)
    node, pod = example("big-0")
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "61"
    apply(world, [node, pod])
    world.bind(world.get("Pod", "training"), "big-0")
    world.run()
    status = world.status("Pod", "training")
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")


def test_the_pods_of_a_lost_node_are_removed_after_forty_seconds():
    world = World(nodes=1)
    world.create({"kind": "Pod", **_plain_pod("web")})
    world.run()
    world.delete("Node", "node-0", namespace="")
    world.run(39)
    assert world.get("Pod", "web") is not None
    world.run(1)
    assert world.get("Pod", "web") is None


def test_how_long_a_pod_runs():
    world = World()
    apply(world, example("report"))
    world.run(29)
    assert world.status("Job", "report")["active"] == 2
    world.run(1)
    assert world.status("Job", "report")["succeeded"] == 2
    assert condition(world.get("Job", "report"), "Complete")[0] == "True"


def test_a_pod_that_does_not_say_how_long_runs_two_seconds():
    world = World()
    [job] = example("report")
    del job["spec"]["template"]["metadata"]
    apply(world, [job])
    world.run(1)
    assert world.status("Job", "report")["active"] == 2
    world.run(1)
    assert world.status("Job", "report")["succeeded"] == 2


def test_how_a_pod_ends():
    world = World()
    apply(world, example("broken"))
    world.run(2)
    [pod] = world.pods()
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    world.run(60)
    assert world.status("Job", "broken")["failed"] == 2
    assert condition(world.get("Job", "broken"), "Failed")[1] == "BackoffLimitExceeded"


def test_on_failure_a_pod_is_restarted():
    world = World()
    [job] = example("broken")
    job["spec"]["backoffLimit"] = 6  # restarts count too
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    apply(world, [job])
    world.run(15)
    [pod] = world.pods()
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2


async def test_the_standard_storage_class():
    async with running() as cluster:
        claim, pod = example("data")
        apply(cluster, [claim])
        await until(lambda: cluster.events("WaitForFirstConsumer"))
        assert cluster.phase("PersistentVolumeClaim", "data") == "Pending"
        apply(cluster, [pod])
        await until(lambda: cluster.phase("Pod", "db") == "Running")
        claim = cluster.find("PersistentVolumeClaim", "data")
        assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", "standard")
        volume = cluster.find("PersistentVolume", claim["spec"]["volumeName"])
        assert volume["spec"]["csi"]["driver"] == "volumes.berth.dev"
        assert _reachable_from(volume) == [(HOSTNAME, [cluster.node_of("db")])]


def test_a_storage_class_of_ones_own():
    world = World(drivers=True)
    apply(world, example("zonal"))
    world.run()
    claim = world.get("PersistentVolumeClaim", "cache")
    assert claim["status"]["phase"] == "Bound"
    volume = world.get("PersistentVolume", claim["spec"]["volumeName"])
    assert _reachable_from(volume) == [("topology.kubernetes.io/zone", ["zone-a"])]
    world.delete("PersistentVolumeClaim", "cache")
    world.run()
    assert world.get("PersistentVolume", volume["metadata"]["name"])["status"]["phase"] == "Released"


def test_no_provisioner_makes_no_volumes():
    world = World(drivers=True)
    storage_class, claim = example("zonal")
    apply(world, [{**storage_class, "provisioner": "kubernetes.io/no-provisioner"}, claim])
    world.run(60)
    assert world.status("PersistentVolumeClaim", "cache")["phase"] == "Pending"


def _reachable_from(volume):
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [(one["key"], one["values"]) for one in term["matchExpressions"]]


async def test_devices_are_claimed_and_lost():
    async with running(nodes=1, devices=2) as cluster:
        [published] = [obj["spec"] for obj in cluster.store.objects(resource_of("ResourceSlice"))]
        assert [device["name"] for device in published["devices"]] == ["gpu-0", "gpu-1"]
        assert published["devices"][1] == {
            "name": "gpu-1",
            "attributes": {"index": {"int": 1}, "model": {"string": "hollow-1"}},
            "capacity": {"memory": {"value": "16Gi"}},
        }
        apply(cluster, example("one-gpu"))
        pods = ("claims-one", "asks-for-one")
        await until(lambda: [cluster.phase("Pod", name) for name in pods] == ["Running", "Running"])
        claims = cluster.store.objects(resource_of("ResourceClaim"))
        given = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims]
        assert sorted(given) == ["gpu-0", "gpu-1"]
        apply(cluster, example("broken-driver"))
        await until(lambda: not cluster.store.objects(PODS))


def test_what_admission_does_to_a_pod():
    world = World(nodes=0)
    apply(world, example("urgent"))
    spec = world.get("Pod", "hurried")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    seconds = {one["key"]: one["tolerationSeconds"] for one in spec["tolerations"]}
    assert seconds == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}
    assert world.status("Pod", "hurried")["qosClass"] == "BestEffort"


async def test_a_plugin_follows_a_kind_of_ones_own():
    [plugin] = [text for text in blocks("python", PLUGINS) if "class ByQuota" in text]
    names: dict[str, object] = {"__name__": "by_quota"}
    exec(plugin, names)
    world = LiveWorld()
    world.transport = StoreTransport(world.store)  # whose user may see the kind
    apply(world, example("teamquotas.example.com"))
    [quotas] = world.store.custom.stored()
    world.store.create(quotas, "", {"metadata": {"name": "q"}, "spec": {"team": "red", "frozen": True}})
    world.store.create(PODS, "default", {"metadata": {"name": "web", "labels": {"team": "red"}},
                                         "spec": {"containers": [{"name": "c", "image": "x"}]}})  # fmt: skip
    config = configuration(profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "ByQuota"}]}}}])
    registry = in_tree_registry().merge(Registry({"ByQuota": names["ByQuota"]}, "a test"))
    async with scheduling(world, config, registry=registry):
        await until(lambda: world.condition("web"))
        assert "quota q is frozen" in world.condition("web")["message"]
        world.store.patch(quotas, "", "q", {"spec": {"frozen": False}}, "application/merge-patch+json")
        await until(lambda: world.node_of("web"))
        with pytest.raises(StoreError, match="the team cannot change"):
            world.store.patch(quotas, "", "q", {"spec": {"team": "blue"}}, "application/merge-patch+json")


# --- the tables ------------------------------------------------------------------------------------------------------


def test_every_name_of_berth_is_in_the_document_and_in_the_code():
    sources = [
        *(ROOT / "packages/cluster/src/berth_cluster").rglob("*.py"),
        *(ROOT / "packages/cluster/src/berth_cluster/cli").glob("demo.*"),
    ]
    used = {name for path in sources for name in re.findall(r"\bberth\.dev/[a-z-]+", path.read_text())}
    assert used == set(re.findall(r"\bberth\.dev/[a-z-]+", TEXT))
    annotations = {row[0].strip("`") for row in rows("Annotations")}
    assert annotations == used - {"berth.dev/gpu"}


def test_the_resources():
    told = {row[0].strip("`"): row[1] for row in rows("Resources and verbs")}
    found: dict[str, list[str]] = {}
    for kind in RESOURCE_TYPES:
        subresources = f" ({', '.join(kind.subresources)})" if kind.subresources else ""
        found.setdefault(kind.api_version, []).append(kind.plural + subresources)
    assert told == {version: ", ".join(names) for version, names in found.items()}
    verbs = re.search(r"has the verbs ([\w, ]+), and", section("Resources and verbs"))[1]
    assert {frozenset(kind.verbs) for kind in RESOURCE_TYPES} == {frozenset(verbs.replace(" and ", ", ").split(", "))}


def test_the_controllers():
    store = Store(lambda: datetime.now(UTC))
    found = [controller.name for controller in make_controllers(ControllerManager(store).client, ClusterSettings())]
    told = [name for row in rows("Controllers") for name in re.findall(r"`([\w-]+)`", row[0])]
    assert sorted(told) == sorted(found)


def test_what_cannot_be_deleted():
    store = Store(lambda: datetime.now(UTC))
    for kind, name in (
        ("Namespace", "default"),
        ("Namespace", "kube-system"),
        ("Namespace", "kube-public"),
        ("PriorityClass", "system-node-critical"),
        ("PriorityClass", "system-cluster-critical"),
    ):
        with pytest.raises(StoreError, match="forbidden"):
            store.delete(resource_of(kind), "", name)


def test_the_limits():
    from berth.serving.connections import ConnectionLimits
    from berth_cluster.apimachinery import errors, patches
    from berth_cluster.apimachinery.reason import MAX_DEPTH, MAX_VALUES
    from berth_cluster.cli import up
    from berth_cluster.controllers import events
    from berth_cluster.serving import app, handlers
    from berth_cluster.serving.bodies import MAX_BODY_BYTES
    from berth_cluster.storage import collection, store, watch
    from berth_cluster.storage.event_expiry import EVENT_TTL_S, MAX_EVENTS

    told = dict(rows("Limits"))
    mebibyte = 1024 * 1024
    assert told["request body"] == f"{MAX_BODY_BYTES // mebibyte} MiB"
    copied = f"{patches.MAX_OPERATIONS:,}, which may copy {patches.MAX_COPIED_BYTES // mebibyte} MiB in all"
    assert told["operations in a JSON patch"] == copied
    history = told["history for watches and paged lists"]
    assert f"{store.DEFAULT_HISTORY:,} changes" in history
    assert f"{collection.MAX_HISTORY_BYTES // mebibyte} MiB" in history
    assert told["events that a watcher may lag behind"].startswith(
        f"{watch.MAX_WATCH_EVENTS:,}, or {watch.MAX_WATCH_BYTES // mebibyte} MiB"
    )
    assert told["values in a body, keys and elements counted"] == f"{MAX_VALUES:,}, at most {MAX_DEPTH} levels deep"
    assert told["size of an object, as JSON"] == f"{store.MAX_OBJECT_BYTES / mebibyte:g} MiB"
    assert told["causes that an error names"].startswith(f"{errors.MAX_CAUSES}, ")
    assert EVENT_TTL_S == 3600 and told["Events in all"].endswith(f"{MAX_EVENTS:,} at most")
    assert told["records at `/debug/bindings`"] == f"the last {store.MAX_BINDINGS:,}"
    limits = ConnectionLimits()
    assert told["connections"].startswith(f"{limits.total:,}; {limits.on_trial} of them, {limits.on_trial_per_peer} of")
    times = f"{limits.handshake_s:g} s, {limits.head_s:g} s, {limits.body_s:g} s"
    assert told["time for a TLS handshake, the head of a request, its body"] == times
    assert (
        told["requests at the same time, and watches"]
        == f"{app.MAX_IN_FLIGHT} and {handlers.MAX_WATCHES:,}; 429 beyond"
    )
    assert told["nodes of `berth up`"] == f"{up.MAX_NODES:,}"
    assert told["devices of each node"] == f"{up.MAX_DEVICES}"
    assert told["Events on one object"].startswith(f"{events.BURST}, ")
    assert events.REFILL_S == 300


def _plain_pod(name):
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
