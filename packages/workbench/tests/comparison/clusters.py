"""Small random clusters and configurations, for checks against the engine run alone."""

import random

from berth.config.load import load_config
from berth.core.builders import expression, make_node, make_pod
from berth.framework.registry import Registry
from berth.framework.setup import Setup
from berth.plugins.registry import full_registry
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad

ALWAYS = ("PrioritySort", "DefaultBinder", "DefaultPreemption", "NodeUnschedulable", "NodeName")
STRATEGIES = ("LeastAllocated", "MostAllocated")


def random_load(seed, *, pods=8, nodes=6, priorities=(0,)):
    """A cluster with zones, taints, and room that gets short, and pods that care for some of it."""
    rng = random.Random(f"load {seed}")
    built = []
    for number in range(nodes):
        node = make_node(f"n{number}").capacity(
            cpu=rng.choice("248"), memory=rng.choice(["4Gi", "8Gi", "16Gi"]), pods="6"
        )
        node.zone(rng.choice("ab")).label("disk", rng.choice(["ssd", "hdd"]))
        if rng.random() < 0.4:
            node.taint("team", "x", rng.choice(["NoSchedule", "PreferNoSchedule"]))
        built.append(node.build())
    running = []
    for number in range(rng.randrange(4)):
        pod = make_pod(f"r{number}").request(cpu="1", memory="1Gi").label("app", rng.choice("st"))
        running.append(pod.node(f"n{rng.randrange(nodes)}").owned_by("ReplicaSet", "run").build())
    return ClusterLoad((*built, *running), tuple(_pod(rng, number, priorities) for number in range(pods)))


def _pod(rng, number, priorities):
    pod = make_pod(f"p{number}").label("app", rng.choice("st")).owned_by("ReplicaSet", f"rs{number % 2}")
    pod.request(cpu=rng.choice(["100m", "1", "2", "3"]), memory=rng.choice(["256Mi", "1Gi", "3Gi"]))
    pod.priority(rng.choice(priorities))
    if rng.random() < 0.4:
        pod.prefer_node(rng.choice([10, 50]), expression("disk", "In", "ssd"))
    if rng.random() < 0.3:
        pod.tolerate("team", "x")
    if rng.random() < 0.4:
        pod.spread("topology.kubernetes.io/zone", {"app": "s"}, when=rng.choice(["DoNotSchedule", "ScheduleAnyway"]))
    return pod.build()


def random_settings(seed):
    """What each plugin that has a say is set to: None for disabled, else weight and args."""
    rng = random.Random(f"settings {seed}")

    def one(args=None, *, may_miss=True):
        if may_miss and rng.random() < 0.25:
            return None
        return rng.choice([1, 2, 5, 20]), args

    strategy = {"type": rng.choice(STRATEGIES), "resources": [{"name": "cpu", "weight": rng.choice([1, 3])}]}
    return {
        "NodeResourcesFit": one({"scoringStrategy": strategy}, may_miss=False),
        "NodeResourcesBalancedAllocation": one(),
        "NodeAffinity": one(),
        "TaintToleration": one(),
        "PodTopologySpread": one({"defaultingType": "List"}),
        "InterPodAffinity": one(),
        "ImageLocality": one(),
    }


def document(settings):
    """The configuration of some settings."""
    enabled = [{"name": name} for name in ALWAYS]
    enabled += [{"name": name, "weight": given[0]} for name, given in settings.items() if given is not None]
    args = [{"name": name, "args": given[1]} for name, given in settings.items() if given is not None and given[1]]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"plugins": {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}, "pluginConfig": args}
        ],
    }


def source(settings, name="some"):
    """The same as it is given to the functions that compare."""
    return ConfigurationSource.of_document(name, document(settings))


def with_plugin(plugin):
    """NodeResourcesFit and a class of a test, which has a say ten times as loud."""
    settings = {"NodeResourcesFit": (1, None), plugin.name: (10, None)}
    registry = full_registry().merge(Registry({plugin.name: plugin}, "a test"))
    return Setup(load_config(document(settings), "a test"), registry)
