"""Nobody waits in vain for NUMA zones: NodeResourceTopologyMatch with each of its caches, without the flush by age.

Random things happen to a few machines with zones, kubelets that admit pods into them, and agents that report them.
Whenever everything that is under way has come to rest, no pod that fits a node lies among the unschedulable.
"""

import math
import random

import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.testing.invariants import decide
from berth_plugins.numa.cache import PODS
from berth_plugins.numa.fingerprint import ATTRIBUTE, fingerprint
from berth_plugins.numa.topology import TOPOLOGIES
from tests.guests import registry_with_guests
from tests.liveness.checks import shown, waits_in_vain

NAME, KIND = "NodeResourceTopologyMatch", "KubeSchedulerConfiguration"
NODES = ("n1", "n2", "n3")
CACHES = {
    "passthrough": {},
    "discards": {"discardReservedNodes": True},
    "shared": {"cacheResyncPeriodSeconds": 5, "cache": {"informerMode": "Shared"}},
    "dedicated": {"cacheResyncPeriodSeconds": 5},
    "lenient": {
        "cacheResyncPeriodSeconds": 5,
        "cache": {
            "informerMode": "Shared",
            "foreignPodsDetect": "OnlyExclusiveResources",
            "resyncScope": "OnlyResources",
        },
    },
}


def configuration(args):
    enabled = [{"name": name} for name in (NAME, "NodeResourcesFit", "PrioritySort", "DefaultBinder")]
    plugins = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    profile["pluginConfig"] = [{"name": NAME, "args": args}]
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": KIND, "profiles": [profile]}


class Life:
    """The machines, and what happens to them and to the pods."""

    def __init__(self, seed, args):
        self.rng = random.Random(seed)
        self.cluster = VirtualCluster(
            registry=registry_with_guests(), config=configuration(args), unschedulable_age_s=math.inf, seed=seed
        )
        self.is_watched = any(each.name == PODS.name for each in self.cluster.core.resources)
        self.number = 0
        self.zones = dict.fromkeys(NODES, 2)
        self.placed = {name: {} for name in NODES}
        self.policy = dict.fromkeys(NODES, "single-numa-node")
        for name in NODES:
            self.put_node(name)
            self.report(name)

    def happen(self):
        acts = {self.add_pod: 14, self.run_pod: 14, self.end_pod: 6, self.tell: 8, self.refuse: 2, self.change_node: 2,
                self.forget: 1, self.align: 1, self.add_stranger: 2, self.wait: 6}  # fmt: skip
        self.rng.choices(list(acts), list(acts.values()))[0]()
        if self.rng.random() < 0.7:
            self.cluster.step()
        self.let_watch()

    def put(self, obj):
        self.cluster.put(obj)

    def put_node(self, name):
        self.put(make_node(name).capacity(cpu=str(self.rng.choice((8, 8, 10, 4))), memory="64Gi"))

    def change_node(self):
        name = self.rng.choice(NODES)
        if self.rng.random() < 0.4 and ("Node", name) in self.cluster.objects:
            self.cluster.delete("Node", name)
        else:
            self.put_node(name)

    def free(self, name, number):
        return 4 - sum(cpus for zone, cpus in self.placed[name].values() if zone == number)

    def report(self, name):
        self.number += 1
        attributes = {"topologyManagerPolicy": self.policy[name], "topologyManagerScope": "pod"}
        attributes[ATTRIBUTE] = fingerprint(tuple(key.split("/")) for key in self.placed[name])
        zones = [
            {"name": f"node-{number}", "type": "Node", "resources": [
                {"name": "cpu", "available": str(self.free(name, number))}, {"name": "memory", "available": "32Gi"},
            ]}
            for number in range(self.zones[name])
        ]  # fmt: skip
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.number)}
        listed = [{"name": key, "value": value} for key, value in attributes.items()]
        self.put(TOPOLOGIES.read({"metadata": metadata, "attributes": listed, "zones": zones}))

    def tell(self):
        self.report(self.rng.choice(NODES))

    def align(self):
        name = self.rng.choice(NODES)
        self.policy[name] = self.rng.choice(("single-numa-node", "single-numa-node", "restricted"))

    def forget(self):
        name = self.rng.choice(NODES)
        if (TOPOLOGIES.name, name) in self.cluster.objects:
            self.cluster.delete(TOPOLOGIES.name, name)

    def pod(self, name, cpus):
        amounts = {"cpu": str(cpus), "memory": "1Gi"}
        return make_pod(name).uid(name).container(requests=amounts, limits=amounts)

    def add_pod(self):
        self.number += 1
        self.put(self.pod(f"p{self.number}", self.rng.choice((1, 2, 3, 4))).build())

    def add_stranger(self):
        self.number += 1
        self.put(self.pod(f"other{self.number}", 1).scheduler("other").node(self.rng.choice(NODES)).build())

    def pods(self, *phases):
        bound = [pod for (kind, _), pod in sorted(self.cluster.objects.items()) if kind == "Pod" and pod.spec.node_name]
        return [pod for pod in bound if (pod.status.phase or "Pending") in phases]

    def run_pod(self, pod=None):
        """A kubelet admits a pod, or refuses it; one that it has admitted is seen to run."""
        waiting = self.pods("Pending")
        if pod is None and not waiting:
            return
        pod = pod or self.rng.choice(waiting)
        name, key = pod.spec.node_name, pod.key
        cpus = int(pod.spec.containers[0].resources.requests["cpu"])
        if key not in self.placed[name]:
            fitting = [number for number in range(self.zones[name]) if self.free(name, number) >= cpus]
            if not fitting:
                self.cluster.delete("Pod", key)
                return
            self.placed[name][key] = fitting[0], cpus
        else:
            builder = self.pod(pod.metadata.name, cpus).scheduler(pod.spec.scheduler_name).node(name)
            self.put(builder.phase("Running").set_status(qosClass="Guaranteed").build())

    def end_pod(self):
        running = self.pods("Running")
        if running:
            pod = self.rng.choice(running)
            del self.placed[pod.spec.node_name][pod.key]
            if self.rng.random() < 0.5:
                self.report(pod.spec.node_name)
            self.cluster.delete("Pod", pod.key)

    def refuse(self):
        self.cluster.refuse("the server is busy")

    def wait(self):
        self.cluster.advance(self.rng.choice((0.5, 5.0, 30.0)))

    def let_watch(self, chance=0.5):
        """The second watch of pods, where there is one, catches up sooner or later."""
        if not self.is_watched or self.rng.random() > chance:
            return
        objects = self.cluster.objects
        for kind, key in list(objects):
            if kind == PODS.name and ("Pod", key) not in objects:
                self.cluster.delete(kind, key)
        for (kind, key), pod in list(objects.items()):
            if kind == "Pod" and self._seen(pod) != objects.get((PODS.name, key)):
                self.put(self._seen(pod))

    def _seen(self, pod):
        requests = dict(pod.spec.containers[0].resources.requests)
        return PODS.read(
            {
                "metadata": {"name": pod.metadata.name, "namespace": "default", "uid": pod.metadata.uid},
                "spec": {"nodeName": pod.spec.node_name, "containers": [{"resources": {"requests": requests}}]},
                "status": {"phase": pod.status.phase or "Pending", "qosClass": "Guaranteed"},
            }
        )

    def settle(self):
        """All that is under way comes to an end: pods run, agents report, watches catch up."""
        self.catch_up()
        while waiting := self.pods("Pending"):
            for pod in waiting:
                self.run_pod(pod)
            self.catch_up()

    def catch_up(self):
        for name in NODES:
            if (TOPOLOGIES.name, name) in self.cluster.objects:
                self.report(name)
        self.let_watch(1.0)
        self.cluster.advance(700.0)


@pytest.mark.parametrize("caching", CACHES)
def test_nobody_waits_in_vain_for_zones(caching):
    waited = 0
    for seed in range(3):
        life = Life(seed, CACHES[caching])
        for number in range(160):
            life.happen()
            if number % 4 == 0:
                remembers_right(life)
            if number % 20 == 0:
                life.cluster.advance(700.0)
                core = life.cluster.core
                assert not waits_in_vain(core), f"seed {seed}, step {number}"
                waited += len(core.queue.unschedulable)
        life.settle()
        assert not waits_in_vain(life.cluster.core), f"seed {seed}, in the end"
    assert waited > 10


def remembers_right(life):
    """What is remembered of some pods equals what is worked out."""
    core = life.cluster.core
    if core.is_cycle_open:
        return
    for queued in life.rng.sample(list(core.queue), min(2, len(core.queue))):
        kept, afresh = (shown(core, decide(core, queued.pod, memos=memos)) for memos in (True, False))
        assert kept == afresh


@pytest.mark.parametrize("caching", ["passthrough", "shared", "dedicated"])
def test_a_scheduler_that_starts_anew_knows_the_same_once_all_is_reported(caching):
    """What is reserved is forgotten, but by then every report includes what was."""
    for seed in range(3):
        life = Life(seed, CACHES[caching])
        for _ in range(120):
            life.happen()
        life.settle()
        before = shown_for(life)
        life.cluster.restart().advance(1.0)
        assert shown_for(life) == before


def shown_for(life):
    core = life.cluster.core
    return shown(core, decide(core, life.pod("asks", 2).info(), memos=True))["nodes"]
