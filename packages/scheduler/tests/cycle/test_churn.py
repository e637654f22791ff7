"""Clusters in which anything happens in any order: nothing is lost, nothing is miscounted, memos change nothing."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import expression, make_namespace, make_node, make_pod, make_service
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import Bind
from berth.testing.invariants import check, check_memos
from tests.effort import examples

NODES = [f"n{index}" for index in range(6)]
PODS = [f"p{index}" for index in range(24)]
APPS = ("web", "db", "cache")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def _weighed(*names):
    return [{"name": name, "weight": weight} for weight, name in enumerate(names, start=1)]


V1_20 = {
    "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "preFilter": {"enabled": _weighed("ServiceAffinity")},
                "filter": {"enabled": _weighed("NodeLabel", "ServiceAffinity", "CinderLimits")},
                "preScore": {"enabled": _weighed("SelectorSpread")},
                "score": {
                    "enabled": _weighed(
                        "SelectorSpread",
                        "NodeLabel",
                        "ServiceAffinity",
                        "NodeResourcesMostAllocated",
                        "RequestedToCapacityRatio",
                        "NodeResourceLimits",
                    )
                },
            },
            "pluginConfig": [
                {"name": "NodeLabel", "args": {"presentLabels": ["disk"], "absentLabelsPreference": ["zone"]}},
                {
                    "name": "ServiceAffinity",
                    "args": {"affinityLabels": ["disk"], "antiAffinityLabelsPreference": [ZONE]},
                },
                {
                    "name": "RequestedToCapacityRatio",
                    "args": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 60, "score": 1}]},
                },
            ],
        }
    ],
}
"""The default provider with all other plugins of its time beside."""


def random_node(rng, name):
    node = make_node(name).capacity(cpu=str(rng.choice((1, 2, 4))), memory="8Gi", pods=str(rng.choice((3, 110))))
    node.label("disk", rng.choice(("ssd", "hdd")))
    if rng.random() < 0.8:
        node.zone(rng.choice("abc"))
    if rng.random() < 0.2:
        node.taint("dedicated", "x", rng.choice(("NoSchedule", "PreferNoSchedule")))
    if rng.random() < 0.1:
        node.unschedulable()
    if rng.random() < 0.3:
        node.image("app:1", size_bytes=rng.choice((50, 500)) << 20)
    return node


def random_pod(rng, name):
    app = rng.choice(APPS)
    pod = make_pod(name, rng.choice(("default", "prod"))).label("app", app)
    pod.container("app:1", requests={"cpu": rng.choice(("100m", "500m", "900m")), "memory": "128Mi"})
    pod.priority(rng.choice((0, 0, 10)))
    wish = rng.randrange(10)
    if wish == 0:
        pod.pod_anti_affinity(HOST, {"app": app})
    elif wish == 1:
        pod.pod_affinity(ZONE, {"app": rng.choice(APPS)})
    elif wish == 2:
        pod.spread(ZONE, {"app": app}, when=rng.choice(("DoNotSchedule", "ScheduleAnyway")))
    elif wish == 3:
        pod.prefer_pod_anti_affinity(50, HOST, {"app": app})
    elif wish == 4:
        pod.node_selector({"disk": "ssd"})
    elif wish == 5:
        pod.tolerate("dedicated").prefer_node(5, expression("disk", "In", "hdd"))
    elif wish == 6:
        pod.host_port(8080)
    elif wish == 7:
        pod.gate("hold")
    elif wish == 8:
        pod.nominated(rng.choice(NODES))
    return pod


class Churn:
    """One cluster to which random things happen."""

    def __init__(self, seed, *, memos=True, config=None, generation=None):
        self.rng = random.Random(seed)
        namespaces = (make_namespace("default"), make_namespace("prod", {"env": "prod"}))
        services = (make_service(app, {"app": app}) for app in APPS[:2])
        self.cluster = VirtualCluster(*namespaces, *services, memos=memos, config=config, generation=generation)
        self.cluster.answers_binds = False
        self.births = 0

    def happen(self):
        act = self.rng.choices(
            (self.put_node, self.delete_node, self.add_pod, self.delete_pod, self.change_pod, self.answer, self.wait,
             self.label_namespace),
            (6, 2, 10, 4, 3, 8, 4, 1),
        )[0]  # fmt: skip
        act()
        if self.rng.random() < 0.7:
            self.cluster.step()

    def put_node(self):
        self.cluster.put(random_node(self.rng, self.rng.choice(NODES)))

    def delete_node(self):
        name = self.rng.choice(NODES)
        if ("Node", name) in self.cluster.objects:
            self.cluster.delete("Node", name)

    def add_pod(self):
        self.births += 1
        pod = random_pod(self.rng, self.rng.choice(PODS)).uid(f"u{self.births}")
        if self.rng.random() < 0.1:
            pod.node(self.rng.choice(NODES))
        key = f"{pod.metadata['namespace']}/{pod.metadata['name']}"
        if ("Pod", key) not in self.cluster.objects:
            self.cluster.put(pod)

    def _any_pod(self):
        keys = sorted(key for kind, key in self.cluster.objects if kind == "Pod")
        return self.rng.choice(keys) if keys else None

    def delete_pod(self):
        key = self._any_pod()
        if key is not None:
            self.cluster.delete("Pod", key)

    def change_pod(self):
        key = self._any_pod()
        if key is None:
            return
        pod = self.cluster.objects["Pod", key]
        if pod.status.phase or pod.metadata.deletion_timestamp:
            return  # there is no way back from there
        changed = make_pod(pod.metadata.name, pod.metadata.namespace).uid(pod.metadata.uid).label("app", "web")
        changed.container("app:1", requests={"cpu": "100m", "memory": "128Mi"})
        if pod.spec.node_name:
            changed.node(pod.spec.node_name)
        self.rng.choice((changed.terminating, lambda: changed.phase("Succeeded"), changed.copy))()
        self.cluster.put(changed)

    def answer(self):
        if self.cluster.requests:
            request = self.rng.choice(self.cluster.requests)
            self.cluster.answer(request, error=self.rng.choice(("", "", "", "conflict")))

    def wait(self):
        self.cluster.now += self.rng.choice((0.1, 1.0, 12.0, 40.0))

    def label_namespace(self):
        self.cluster.put(make_namespace("prod", {"env": self.rng.choice(("prod", "test"))}))

    def settle(self):
        """Everything is answered, everybody has had time."""
        self.cluster.answers_binds = True
        for _ in range(3):
            while self.cluster.requests:
                self.cluster.answer(self.cluster.requests[0])
            self.cluster.advance(400.0)


@pytest.mark.parametrize("generation", [None, "v1.20"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_miscounted_whatever_happens(seed, generation):
    churn = Churn(seed, generation=generation)
    for _ in range(150):
        churn.happen()
        check(churn.cluster.core)
    churn.settle()
    check(churn.cluster.core)
    core = churn.cluster.core
    assert len(core.queue.in_flight) == core.cache.assumed_count == 0
    assert core.unfinished == 0


@pytest.mark.parametrize("generation", [None, "v1.20"])
@pytest.mark.parametrize("seed", range(4))
def test_what_could_run_does_once_everything_is_quiet(seed, generation):
    """The answer of a core that sees the same cluster for the first time: nobody who waits would fit there."""
    churn = Churn(100 + seed, generation=generation)
    for _ in range(150):
        churn.happen()
    churn.settle()
    fresh = VirtualCluster(*churn.cluster.objects.values()).run()
    for pod in (queued.pod for queued in fresh.core.queue):
        assert churn.cluster.core.queue.find(pod.uid), f"{pod.key} is not queued"
    assert fresh.nodes_of() == churn.cluster.nodes_of()


@pytest.mark.parametrize(("seed", "config"), [(0, None), (1, None), (2, None), (3, None), (4, V1_20), (5, V1_20)])
def test_what_is_remembered_equals_what_is_worked_out_afresh(seed, config):
    churn = Churn(200 + seed, config=config)
    asked = 0
    for number in range(150):
        churn.happen()
        if number % 3 == 0:
            for pod in [queued.pod for queued in churn.cluster.core.queue][:4]:
                check_memos(churn.cluster.core, pod)
                asked += 1
    assert asked > 5


@pytest.mark.parametrize("config", [None, V1_20], ids=["v1.36", "v1.20"])
@given(st.integers(0, 10_000))
@settings(max_examples=examples(9), deadline=None)
def test_memos_change_no_effect(config, seed):
    effects = []
    for memos in (True, False):
        churn = Churn(seed, memos=memos, config=config)
        for _ in range(60):
            churn.happen()
        effects.append([_shown(effect) for effect in churn.cluster.effects])
    assert effects[0] == effects[1]


@given(st.integers(0, 10_000))
@settings(max_examples=4, deadline=None)
def test_the_same_seed_and_events_have_the_same_effects(seed):
    runs = []
    for _ in range(2):
        churn = Churn(seed)
        for _ in range(80):
            churn.happen()
        runs.append([_shown(effect) for effect in churn.cluster.effects])
    assert runs[0] == runs[1]


def test_ties_are_broken_by_the_seed_alone():
    def chosen(seed):
        nodes = (make_node(f"n{index}").capacity(cpu="4", memory="8Gi") for index in range(20))
        found = VirtualCluster(*nodes, make_pod("a").request(cpu="1"), seed=seed).run()
        return found.nodes_of()["a"]

    by_seed = [chosen(seed) for seed in range(12)]
    assert by_seed == [chosen(seed) for seed in range(12)]
    assert len(set(by_seed)) > 3


def _shown(effect):
    inner = getattr(effect, "effect", effect)
    return ("bind", inner.pod.key, inner.node_name) if isinstance(inner, Bind) else effect
