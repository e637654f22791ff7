"""One cluster, asked through every tool and through the page: where one of them sees a place, all of them do.

Two nodes have room for one pod each. `web-0` runs on node a, `web-1` is pending, and whether node b takes it depends on
one trait of the cluster: an object that a plugin follows, a claim, a quota, a gate, a second profile … Each trait comes
in two worlds, in one of which b is open to the pod and in the other closed. What is to be answered follows from that
alone, by Kubernetes' own rules: so a tool that does not know of the trait is wrong in one of the two.
"""

import asyncio
import json
import re

import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.questions.whatif import QUESTION as WHAT_IF
from berth_workbench.questions.whatif import WhatIfRequest
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.snapshot import read_cluster
from berth_workbench.sources.cluster_file import ClusterFileSource

V1 = "kubescheduler.config.k8s.io/v1"
EXTENDERS = re.compile("extenders (of the configuration were|are) not asked")
DENY_NODES = """
import msgspec
from berth.plugin import CustomResource, ObjectMeta, unschedulable

class Deny(msgspec.Struct, frozen=True):
    metadata: ObjectMeta

class DenyNodes:
    name = "DenyNodes"

    def __init__(self, args, handle):
        denies = CustomResource("example.com", "v1", "denies", "Deny", struct=Deny, namespaced=False)
        self._denied = handle.follow(denies)

    def filter(self, state, pod, node):
        return unschedulable("denied") if self._denied.get(node.name) is not None else None
"""


def node(name, **labels):
    made = make_node(name).capacity({"cpu": "4", "memory": "16Gi", "pods": "10"})
    made.labels({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name, "pool": name, **labels})
    return made.document


def pod(name, on="", cpu="3", owner="web", **spec):
    made = make_pod(name).uid(name).request(cpu=cpu).label("app", owner or name).created("2030-01-01T00:00:01Z")
    made.set_spec(**spec)
    if owner:
        made.owned_by("ReplicaSet", f"{owner}-1", uid=f"{owner}-1")
    if on:
        made.node(on).phase("Running")
        made.status["conditions"] = [{"type": "Ready", "status": "True"}]
    return made.document


def replica_set(name="web"):
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"{name}-1", "namespace": "default", "uid": f"{name}-1"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}},
    }


def configuration(*profiles, **more):
    return {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", "profiles": [*profiles] or [{}], **more}


class World:
    """A cluster, the scheduler's configuration, and what follows for the pending pods."""

    def __init__(
        self, objects=(), *, is_open, config=None, plugin="", gates="", spec=None, pending=None, fits=None, **by_tool
    ):
        self.spec = spec or {}
        """What is special about the pods of the workload."""
        running = pod("web-0", "a", priority=500)
        self.objects = [node("a"), node("b"), replica_set(), *objects, running, pod("web-1", **self.spec)]
        self.by_tool = by_tool
        """How many pods have no place for tools that look at a part of them only, and say so."""
        self.config = config or configuration()
        self.plugin, self.gates = plugin, gates
        self.pending = int(not is_open) if pending is None else pending
        """How many pods have no place once the scheduler has placed what it can."""
        self.fits = int(is_open) if fits is None else fits
        """How many more pods of the workload fit, what is pending left aside."""
        self.has_note = False


def followed(is_open):
    objects = [] if is_open else [{"apiVersion": "example.com/v1", "kind": "Deny", "metadata": {"name": "b"}}]
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "DenyNodes"}]}}}
    return World(objects, is_open=is_open, config=configuration(profile), plugin="deny.py:DenyNodes")


def extender(is_open):
    """Nobody asks extenders in a simulation, which each answer has to say."""
    world = World(
        is_open=True, config=configuration(extenders=[{"urlPrefix": "http://127.0.0.1:9/", "filterVerb": "f"}])
    )
    if is_open:
        world.config = configuration()
    world.has_note = not is_open
    return world


def gated(is_open):
    """Nobody looks for a place for a pod that is gated: it is no backlog, and nothing is decided about it."""
    spec = {} if is_open else {"schedulingGates": [{"name": "example.com/wait"}]}
    return World(is_open=is_open, spec=spec, fits=1, autoscale=0, decide=0)


def pending(is_open):
    """Another pod is ahead and takes the room; whoever asks about one pod alone is told that it fits now."""
    other = pod("early", owner="early")
    other["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
    objects = [] if is_open else [replica_set("early"), other]
    return World(objects, is_open=is_open, fits=1, page_pending=0)


def quota(is_open):
    """An ElasticQuota that allows the namespace what runs, and one pod more or none."""
    amounts = {"cpu": "6" if is_open else "5", "memory": "64Gi"}
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    objects = [{**kind, "metadata": {"name": "q", "namespace": "default"}, "spec": {"min": amounts, "max": amounts}}]
    enabled = {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "DefaultPreemption"}]}
    return World(
        objects,
        is_open=is_open,
        config=configuration({"plugins": {"multiPoint": enabled}}),
        plugin="berth_plugins.capacity.capacity_scheduling:CapacityScheduling",
    )


def devices(is_open):
    """Node b has a device of the claimed class, or none has one."""
    api = "resource.k8s.io/v1"
    made = [{"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}]
    if is_open:
        place = {"nodeName": "b", "driver": "gpu.example.com", "pool": _pool("b"), "devices": [{"name": "gpu-0"}]}
        made.append({"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": "b"}, "spec": place})
    wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    for name in ("one", "two"):
        meta = {"name": name, "namespace": "default", "uid": name}
        made.append({"apiVersion": api, "kind": "ResourceClaim", "metadata": meta, "spec": wanted})
    claims = {"resourceClaims": [{"name": "d", "resourceClaimName": "one"}]}
    return World(made, is_open=is_open, spec=claims)


def _pool(name):
    return {"name": name, "generation": 1, "resourceSliceCount": 1}


def volume(is_open):
    """The pod's volume lies on the node that has room, or on the other."""
    meta = {"name": "data", "namespace": "default", "uid": "data"}
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b" if is_open else "a"]}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**meta, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }
    held = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v", "uid": "v"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
            "local": {"path": "/data"},
        },
        "status": {"phase": "Bound"},
    }
    spec = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    return World([claim, held], is_open=is_open, spec=spec)


def daemon_set(is_open):
    """A daemon's pod that belongs on b, and that the pods of its DaemonSet go before, takes the room or does not."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    daemon = pod("agent", owner="", cpu="1" if is_open else "3", affinity=affinity)
    daemon["metadata"] |= {
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
        ],
    }
    return World([daemon], is_open=is_open, fits=1, page_pending=0)


def second_profile(is_open):
    """A profile of another name keeps its pods off the zone of node b."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b" if is_open else "a"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    args = [{"name": "NodeAffinity", "args": {"addedAffinity": required}}]
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "second", "pluginConfig": args}]
    return World(is_open=is_open, config=configuration(*profiles), spec={"schedulerName": "second"})


def priorities(is_open):
    """Somebody is on b whom a pod of higher priority preempts; nobody is preempted by counting, and by deciding."""
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 0), ("high", 1000))
    ]
    low = pod("low", "b", owner="", priorityClassName="low", priority=0)
    spec = {"priorityClassName": "high"} if is_open else {}
    return World([*classes, low], is_open=is_open, spec=spec, fits=0, decide=1, explain=1, page_pending=1)


def pod_group(is_open):
    """Two pods that are placed together or not at all, where there is room for both, or for one."""
    api = "scheduling.k8s.io/v1alpha2"
    meta = {"name": "g", "namespace": "default", "uid": "g"}
    policy = {"gang": {"minCount": 2}}
    group = {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": policy}}
    spec = {"schedulingGroup": {"podGroupName": "g"}}
    objects = [group, pod("web-2", cpu="1" if is_open else "3", **spec)]
    gates = "GenericWorkload=true,GangScheduling=true"
    pending = 0 if is_open else 2
    return World(objects, is_open=is_open, spec=spec, gates=gates, pending=pending, fits=0, decide=int(not is_open))


TRAITS = (
    followed, extender, gated, pending, quota, devices, volume, daemon_set, second_profile, priorities, pod_group,
)  # fmt: skip


class Asked:
    """A world as files, and the commands that are asked about it."""

    def __init__(self, world, directory):
        self.world, self.directory = world, directory
        (directory / "deny.py").write_text(DENY_NODES)
        self.config = self.write("config.yaml", world.config)
        self.cluster = self.write("cluster.json", {"apiVersion": "v1", "kind": "List", "items": world.objects})
        self.plugins = [str(directory / world.plugin)] if world.plugin.startswith("deny") else [world.plugin]
        self.plugins = [each for each in self.plugins if each]
        self.web = self.write("web.yaml", pod("more", owner="", **world.spec))
        self.notes = ""

    def write(self, name, document):
        path = self.directory / name
        path.write_text(json.dumps(document))
        return str(path)

    @property
    def pending(self):
        """The names of the pending pods."""
        pods = [each for each in self.world.objects if each["kind"] == "Pod"]
        return [each["metadata"]["name"] for each in pods if "nodeName" not in each["spec"]]

    @property
    def source(self):
        """The configuration, as the page takes it."""
        return ConfigurationSource("c", json.dumps(self.world.config), tuple(self.plugins), self.world.gates)

    @property
    def options(self):
        return [
            *(f"--plugin={each}" for each in self.plugins),
            *([f"--feature-gates={self.world.gates}"] * bool(self.world.gates)),
        ]

    def run(self, command, *args, config=True, cluster=True, output=("-o", "json")):
        given = [command, *args, *self.options, *output]
        given += ["--config", self.config] if config else []
        given += ["--cluster", self.cluster] if cluster else []
        found = CliRunner().invoke(main, given)
        assert found.exit_code == 0, (given, found.output)
        self.notes = found.output
        return found.stdout

    def json(self, command, *args, **options):
        return json.loads(self.run(command, *args, **options))


def whatif(asked):
    return asked.json("whatif")["after"]["pending"]


def survive(asked):
    return asked.json("survive", "--of", "node")["pending"]


def wait(asked):
    return sum(each["seconds"] is None for each in asked.json("wait")["pods"])


def autoscale(asked):
    groups = asked.write("groups.yaml", {"groups": [{"name": "a", "min": 0, "max": 3, "like": "a"}]})
    return asked.json("autoscale", "--groups", groups)["backlog"]


def decide(asked):
    lines = asked.run("decide", output=()).splitlines()
    return sum("chosen" not in step for line in lines for step in json.loads(line)["steps"])


def compare(asked):
    found = asked.json("compare", asked.config, asked.config, "--seeds", "1", config=False)
    return int(next(each["a"] for each in found["measures"] if each["name"] == "pending"))


def tune(asked):
    found = asked.json("tune", "--objective", "pending", "--budget", "4", "--seeds", "1", "--jobs", "1")
    return int(found["outcomes"][0]["a"])


def sweep(asked):
    configuration = {"file": asked.config, "plugins": asked.plugins, "featureGates": asked.world.gates}
    file = asked.write(
        "sweep.yaml", {"configurations": {"c": configuration}, "clusters": {"w": {"cluster": asked.cluster}}}
    )
    given = ["sweep", file, "--jobs", "1", "--results", str(asked.directory / "results"), "-o", "json"]
    found = CliRunner().invoke(main, given)
    assert found.exit_code == 0, found.output
    asked.notes = found.output
    return int(next(each["mean"] for each in json.loads(found.stdout)["summaries"] if each["measure"] == "pending"))


def upgrade_plan(asked):
    return asked.json("upgrade-plan", "--pool", "a")["pendingBefore"]


def rebalance(asked):
    return asked.json("rebalance", "--goal", "even-out", "--method", "greedy")["before"]["pending"]


def capacity(asked):
    return asked.json("capacity", "-f", asked.web)["fits"]


def explain(asked):
    return sum(each["state"] != "fits" for each in helped(asked, "explain", *asked.pending))


def helped(asked, *command):
    found = asked.json(*command, "--what-would-help")
    return found if isinstance(found, list) else [found]


def shrink(asked):
    usage = asked.write("usage.yaml", {"default/web-0": {"cpu": "3", "memory": "1Gi"}})
    found = asked.json("shrink", "--usage", usage)
    return found["pending"] - found["fitNow"]


def page_pending(asked):
    source = ClusterFileSource("a file", read_cluster([asked.cluster]), asked.source)
    groups = asyncio.run(source.pending()).groups
    asked.notes = source.title
    return sum(each.pods for each in groups if not each.reason.startswith("fits now"))


def page_what_if(asked):
    about = Situation(read_cluster([asked.cluster]), asked.source.load())
    found = WHAT_IF.answer(about, WhatIfRequest(), WorkWatch()).result
    asked.notes = " ".join(found.notes)
    return found.after.pending


TOOLS = (
    whatif, survive, wait, autoscale, decide, compare, tune, sweep, upgrade_plan, rebalance, page_what_if,
    capacity, explain, shrink, page_pending,
)  # fmt: skip


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("trait", TRAITS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda each: each.__name__)
def test_every_tool_knows_of_the_trait(tool, trait, is_open, tmp_path):
    world = trait(is_open)
    asked = Asked(world, tmp_path)
    assert tool(asked) == world.by_tool.get(tool.__name__, world.fits if tool is capacity else world.pending)
    if world.has_note:
        assert EXTENDERS.search(asked.notes), asked.notes


def refused(asked, *given):
    found = CliRunner().invoke(main, [*given, "--config", asked.config, "--cluster", asked.cluster])
    assert found.exit_code in (1, 2), found.output
    return " ".join(found.output.split())


def groups_of(asked):
    return asked.write("groups.yaml", {"groups": [{"name": "a", "min": 0, "max": 3, "like": "a"}]})


@pytest.mark.parametrize("tool", ["whatif", "survive", "wait", "autoscale", "capacity", "sweep"])
def test_an_unknown_workload_is_refused_by_every_tool_that_scales(tool, tmp_path):
    asked = Asked(World(is_open=True), tmp_path)
    if tool == "sweep":
        steps = [{"scale": {"workload": "Deployment/nope", "replicas": 5}}]
        clusters = {"w": {"cluster": asked.cluster, "steps": steps}}
        file = asked.write("sweep.yaml", {"configurations": {"c": asked.config}, "clusters": clusters})
        results = str(tmp_path / "results")
        said = CliRunner().invoke(main, ["sweep", file, "--jobs", "1", "--results", results])
        assert said.exit_code == 1
        said = said.output
    else:
        more = {"autoscale": ["--groups", groups_of(asked)], "capacity": ["-f", asked.web]}.get(tool, [])
        said = refused(asked, tool, *more, "--scale", "Deployment/nope=5")
    assert "neither the cluster nor a manifest has a Deployment default/nope" in " ".join(said.split())


def test_a_budget_keeps_a_pod_where_it_is_whoever_would_move_it(tmp_path):
    """The only healthy pod of a budget that demands one: nothing that evicts may touch it, as the Eviction API says."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    asked = Asked(World([budget], is_open=True), tmp_path)
    drained = asked.json("whatif", "--drain", "a")
    assert [each["name"] for each in drained["broken"] if each["reason"] == "DrainBlocked"] == ["default/web"]
    assert [each["node"] for each in asked.json("upgrade-plan", "--pool", "a")["blocked"]] == ["a"]
    assert asked.json("rebalance", "--goal", "empty-nodes", "--method", "greedy")["moves"] == 0
    used = ("--used", "1")
    assert asked.json("autoscale", "--groups", groups_of(asked), *used)["removable"] == []
    (lost,) = [each for each in asked.json("survive", "--of", "node")["failures"] if each["names"] == ["a"]]
    assert [(each["name"], each["isLasting"]) for each in lost["budgets"]] == [("default/web", True)]


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_a_workload_over_time_knows_what_plugins_follow(is_open, tmp_path):
    world = followed(is_open)
    asked = Asked(world, tmp_path)
    trace = tmp_path / "day.jsonl"
    denied = [{"what": "object", "at": 0, "manifest": each} for each in world.objects if each["kind"] == "Deny"]
    shape = {"cpu": 3000}
    records = [
        {"kind": "BerthTrace", "version": 1, "source": "a test", "seconds": 60},
        {"what": "node", "at": 0, "name": "b", "cpu": 4000, "memory": 1 << 34},
        *denied,
        {"what": "service", "at": 1, "name": "web", "replicas": 1, "shape": shape},
    ]
    trace.write_text("\n".join(map(json.dumps, records)))
    found = asked.json("simulate", str(trace), cluster=False)
    assert found["waiting"] == world.pending
    compared = asked.json(
        "compare", asked.config, asked.config, "--trace", str(trace), "--seeds", "1", config=False, cluster=False
    )
    assert next(each["a"] for each in compared["measures"] if each["name"] == "pending") == world.pending
