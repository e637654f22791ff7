"""The caches of NodeResourceTopologyMatch against a small model of nodes: their zones, a kubelet, and an agent.

The kubelet admits bound pods one by one, each into a zone that has room. The agent reports what is free then, with the
fingerprint of the pods it has seen. What must hold: a pod that the plugin lets onto a node is never refused by the
kubelet, and once everything has come to rest the plugin knows exactly what is free.
"""

import random

import pytest

from berth.plugin import CycleState
from berth_plugins.numa.cache import PODS
from berth_plugins.numa.fingerprint import ANNOTATION, ATTRIBUTE, METHOD_ATTRIBUTE, WITH_EXCLUSIVE_RESOURCES
from berth_plugins.numa.topology import TOPOLOGIES
from packages.plugins.tests.topologies import cluster, guaranteed, node, plugin_of, report

ZONES, CPUS = 2, 8
NODES = ("n1", "n2")


class Machine:
    """A node, what its kubelet has given to whom, and what its agent has reported."""

    def __init__(self, name):
        self.name = name
        self.zone_of, self.cpus = {}, {}
        self.version = 0

    def free(self, number):
        return CPUS - sum(self.cpus[pod] for pod, zone in self.zone_of.items() if zone == number)

    def admit(self, pod, cpus):
        fitting = [number for number in range(ZONES) if self.free(number) >= cpus]
        if fitting:
            self.zone_of[pod], self.cpus[pod] = fitting[0], cpus
        return bool(fitting)

    def report(self, **attributes):
        self.version += 1
        zones = [{"cpu": str(self.free(number)), "memory": "64Gi"} for number in range(ZONES)]
        pods = [tuple(key.split("/")) for key in self.zone_of]
        return report(self.name, *zones, pods=pods, version=self.version, **attributes)


class History:
    """What happens to two machines and the pods that are placed there."""

    def __init__(self, config, seed, args, attributes, foreign):
        self.rng, self.attributes, self.foreign = random.Random(seed), attributes, foreign
        self.found = cluster(config, cacheResyncPeriodSeconds=5, cache=args)
        self.plugin = plugin_of(self.found)
        self.machines = {name: Machine(name) for name in NODES}
        for name in NODES:
            self.found.put(node(name, cpu=str(CPUS * ZONES)))
            self.found.put(self.machines[name].report(**attributes))
        self.reserved, self.bound, self.running = {}, {}, {}
        self.number = self.refused = 0

    def happen(self):
        acts = [self.place, self.place, self.bind, self.bind, self.admit, self.admit, self.tell, self.tell, self.end,
                self.give_back] + [self.stranger] * self.foreign  # fmt: skip
        self.rng.choice(acts)()

    def place(self):
        """A pod is placed where the plugin lets it."""
        self.number += 1
        pod = guaranteed(f"p{self.number}", cpu=str(self.rng.choice((1, 2, 3))), memory="1Gi")
        table = self.found.core.cache.table
        info = pod.info()
        fitting = [
            name for name in NODES if self.plugin.filter(CycleState(), info, table.view(table.row_of[name])) is None
        ]
        if fitting:
            name = self.rng.choice(fitting)
            self.plugin.reserve(CycleState(), info, name)
            self.reserved[info.key] = (pod, name)

    def any_of(self, pods):
        return self.rng.choice(sorted(pods)) if pods else None

    def give_back(self):
        key = self.any_of(self.reserved)
        if key is not None:
            pod, name = self.reserved.pop(key)
            before = self.plugin._cache.known(name)
            self.plugin.unreserve(CycleState(), pod.info(), name)
            self.plugin.reserve(CycleState(), pod.info(), name)
            assert self.plugin._cache.known(name) == before
            self.plugin.unreserve(CycleState(), pod.info(), name)

    def bind(self):
        key = self.any_of(self.reserved)
        if key is not None:
            pod, name = self.bound[key] = self.reserved.pop(key)
            self.found.put(pod.node(name).phase("Pending"))

    def admit(self):
        """The kubelet admits a pod, and some time later it is seen to run."""
        key = self.any_of(self.bound)
        if key is None:
            return
        pod, name = self.bound[key]
        machine = self.machines[name]
        if key not in machine.zone_of:
            cpus = int(pod.spec["containers"][0]["resources"]["requests"]["cpu"])
            if not machine.admit(key, cpus):
                self.refused += 1
                self.delete(pod)
                del self.bound[key]
        else:
            self.found.put(pod.phase("Running").set_status(qosClass="Guaranteed"))
            self.running[key] = self.bound.pop(key)

    def delete(self, pod):
        key = pod.info().key
        self.found.delete("Pod", key)
        if (PODS.name, key) in self.found.objects:
            self.found.delete(PODS.name, key)

    def end(self):
        """A pod ends, and its zone is free before its object is gone."""
        key = self.any_of(self.running)
        if key is not None:
            pod, name = self.running.pop(key)
            del self.machines[name].zone_of[key]
            if self.rng.random() < 0.5:
                self.found.put(self.machines[name].report(**self.attributes))
            self.delete(pod)

    def tell(self):
        self.found.put(self.rng.choice(list(self.machines.values())).report(**self.attributes))

    def stranger(self):
        """Another scheduler binds a pod, which the kubelet admits if it can."""
        self.number += 1
        name = self.rng.choice(NODES)
        pod = guaranteed(f"other{self.number}", cpu="1").scheduler("other").node(name)
        key = pod.info().key
        self.found.put(pod.phase("Pending"))
        if not self.plugin._cache.known(name).is_fresh:
            self.bound[key] = pod, name

    def settle(self):
        """Everybody has done what there was to do."""
        while self.reserved:
            self.bind()
        while self.bound:
            self.admit()
        for machine in self.machines.values():
            self.found.put(machine.report(**self.attributes))

    def knows_all(self):
        for name, machine in self.machines.items():
            known = self.plugin._cache.known(name)
            assert known.is_fresh, f"{name} is not to be used"
            assert [zone.free["cpu"] for zone in known.topology.zones] == [
                1000 * machine.free(number) for number in range(ZONES)
            ], f"{name}: not what its zones have free"


EXCLUSIVE = {METHOD_ATTRIBUTE: WITH_EXCLUSIVE_RESOURCES}


@pytest.mark.parametrize("attributes", [{}, EXCLUSIVE], ids=["all", "exclusive"])
@pytest.mark.parametrize("mode", ["Shared", "Dedicated"])
def test_nobody_is_refused_and_everything_is_known_in_the_end(config, mode, attributes):
    placed = 0
    for seed in range(25):
        history = History(config, seed, {"informerMode": mode}, attributes, foreign=0)
        for _ in range(120):
            history.happen()
        assert not history.refused, f"seed {seed}: the kubelet has refused a pod"
        placed += len(history.running)
        history.settle()
        history.knows_all()
    assert placed > 50


@pytest.mark.parametrize("detect", ["All", "OnlyExclusiveResources"])
def test_pods_of_others_make_a_node_unusable_until_it_is_reported(config, detect):
    for seed in range(15):
        history = History(config, seed, {"informerMode": "Shared", "foreignPodsDetect": detect}, {}, foreign=2)
        for _ in range(80):
            history.happen()
        history.settle()
        history.knows_all()


def test_of_strangers_without_exclusive_resources_only_one_mode_takes_note(config):
    for detect, is_fresh in (("All", False), ("OnlyExclusiveResources", True), ("None", True)):
        args = {"foreignPodsDetect": detect, "informerMode": "Shared"}
        found = cluster(config, node("n1"), Machine("n1").report(), cacheResyncPeriodSeconds=5, cache=args)
        found.put(guaranteed("shares", cpu="500m", memory="0").scheduler("other").node("n1"))
        assert plugin_of(found)._cache.known("n1").is_fresh is is_fresh
    found.put(guaranteed("pinned").scheduler("other").node("n1"))
    assert plugin_of(found)._cache.known("n1").is_fresh


def test_a_pod_of_others_that_came_before_its_nodes_report_counts(config):
    args = {"foreignPodsDetect": "OnlyExclusiveResources", "informerMode": "Shared"}
    found = cluster(config, node("n1"), cacheResyncPeriodSeconds=5, cache=args)
    found.put(guaranteed("pinned").scheduler("other").node("n1"))
    found.put(Machine("n1").report())
    assert not plugin_of(found)._cache.known("n1").is_fresh


@pytest.mark.parametrize(("scope", "counts"), [("All", True), ("OnlyResources", False)])
def test_how_a_node_aligns_counts_at_once_unless_only_resources_do(config, scope, counts):
    machine = Machine("n1")
    found = cluster(
        config, node("n1"), machine.report(), cacheResyncPeriodSeconds=5,
        cache={"resyncScope": scope, "informerMode": "Shared"},
    )  # fmt: skip
    plugin, pod = plugin_of(found), guaranteed("p", cpu="2").info()
    plugin.reserve(CycleState(), pod, "n1")
    machine.admit("default/unseen", 3)
    found.put(machine.report(policy="restricted"))
    known = plugin._cache.known("n1").topology
    assert known.alignment.policy == ("restricted" if counts else "single-numa-node")
    assert [zone.free["cpu"] for zone in known.zones] == [6000, 6000]


@pytest.mark.parametrize("where", ["attribute", "annotation"])
def test_fingerprints_are_read_from_either_place(config, where):
    machine = Machine("n1")
    found = cluster(
        config, node("n1"), machine.report(), cacheResyncPeriodSeconds=5, cache={"informerMode": "Shared"}
    )  # fmt: skip
    plugin, pod = plugin_of(found), guaranteed("p", cpu="2")
    plugin.reserve(CycleState(), pod.info(), "n1")
    machine.admit("default/p", 2)
    found.put(pod.node("n1").phase("Running"))
    told = machine.report()
    if where == "annotation":
        found.put(by_annotation(told))
    else:
        found.put(told)
    assert [zone.free["cpu"] for zone in plugin._cache.known("n1").topology.zones] == [6000, 8000]


def by_annotation(told):
    """The same report, with its fingerprint in the annotation of old."""
    zones = [
        {
            "name": zone.name,
            "type": zone.type,
            "resources": [{"name": r.name, "available": r.available} for r in zone.resources],
        }
        for zone in told.zones
    ]
    metadata = {"name": "n1", "resourceVersion": "9", "annotations": {ANNOTATION: told.attribute(ATTRIBUTE)}}
    others = [{"name": a.name, "value": a.value} for a in told.attributes if a.name != ATTRIBUTE]
    return TOPOLOGIES.read({"metadata": metadata, "attributes": others, "zones": zones})


def test_with_nothing_reserved_any_more_the_last_report_counts(config):
    found = cluster(
        config, node("n1"), report("n1", {"cpu": "8"}, pods=[]), cacheResyncPeriodSeconds=5,
        cache={"informerMode": "Shared"},
    )  # fmt: skip
    plugin, pod = plugin_of(found), guaranteed("p", cpu="2").info()
    plugin.reserve(CycleState(), pod, "n1")
    found.put(report("n1", {"cpu": "5"}, pods=[("default", "unknown")], version=2))
    (zone,) = plugin._cache.known("n1").topology.zones
    assert zone.free["cpu"] == 6000
    plugin.unreserve(CycleState(), pod, "n1")
    (zone,) = plugin._cache.known("n1").topology.zones
    assert zone.free["cpu"] == 5000
