"""Recorded histories: things happen to a cluster, whose scheduler is restarted and reconfigured meanwhile."""

import random

import msgspec

from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import Clocks, CoreOptions
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import EvictPod
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from berth.recording.recorder import Recorder
from tests.liveness import objects as made
from tests.liveness.life import Life

LIMIT = 1 << 30
REGISTRY = in_tree_registry().merge(Registry({made.SlowPreBind.name: made.SlowPreBind}, "a test"))


def no_report(message):
    raise AssertionError(message)


class Recorded:
    """A cluster whose core is recorded; `cluster` is the `VirtualCluster`."""

    def __init__(self, directory, *, limit=LIMIT):
        self.directory, self.limit = directory, limit
        self.recorder = self._recorder()
        self.cluster = None
        self.rng = random.Random(1)

    def _recorder(self):
        return Recorder(self.directory, limit=self.limit, report=no_report, wall_clock=lambda: 1.7e9)

    def restart(self):
        """The process ends, whatever is under way, and another begins: it lists everything there is."""
        self.recorder.close()
        self.recorder = self._recorder()
        self._become(self._made())

    def reload(self, **changes):
        """Another configuration takes over, as in `LiveScheduler.reconfigure`; nothing is being bound."""
        before = self.cluster.core
        self.cluster.config = msgspec.structs.replace(self.cluster.config, **changes)
        self._become(self._made())
        self.cluster.core.adopt(before.queue, self.cluster.now)

    def close(self):
        self.recorder.close()

    def _made(self):
        cluster = self.cluster
        options = CoreOptions(rng=self.rng, clocks=Clocks(core=lambda: cluster.now))
        return self.recorder.build_core(cluster.config, cluster.registry, options)

    def _become(self, core):
        cluster = self.cluster
        cluster.core = core
        cluster.requests.clear()
        for (kind, _), obj in sorted(cluster.objects.items(), key=lambda item: item[0][0] == "Pod"):
            cluster.handle(ObjectEvent("ADDED", kind, obj))


class RecordedLife(Recorded):
    """All sorts of random things happen: volumes, devices, groups, budgets, refused bindings."""

    def __init__(self, directory, seed, *, crowded=False):
        super().__init__(directory)
        self.life = Life(seed, crowded=crowded, build=self.recorder.build_core)
        self.cluster = self.life.cluster

    def live(self, steps):
        for _ in range(steps):
            self.life.happen()

    def settle(self):
        self.life.settle()


class Churn(Recorded):
    """Pods of all sizes and priorities come to a cluster that is too small, and go; some bindings are refused."""

    def __init__(self, directory, seed, *, nodes=5, limit=LIMIT, names="{}", hears=8, **options):
        super().__init__(directory, limit=limit)
        self.random = random.Random(seed)
        self.names, self.hears = names, hears
        hosts = [
            make_node(names.format(f"n{i}")).capacity(cpu="8", memory="16Gi", pods=110).zone("abc"[i % 3])
            for i in range(nodes)
        ]
        self.cluster = VirtualCluster(*hosts, build=self.recorder.build_core, **options)
        self.cluster.answers_evictions = False
        self.cluster.evicts_at_once = False
        self.number = self.version = 0
        self.nodes, self.most = nodes, 8 * nodes

    def live(self, steps):
        for _ in range(steps):
            self._happen()

    def _happen(self):
        cluster, rng = self.cluster, self.random
        self.number += 1
        cluster.now += rng.choice((0.01, 0.2, 1.5))
        pods = [key for kind, key in cluster.objects if kind == "Pod"]
        for _ in range(self.hears):  # most of what a scheduler hears means nothing to it
            self._hear(pods)
        what = rng.random()
        if not pods or (what < 0.5 and len(pods) < self.most):
            self._come()
        elif what < 0.9:
            cluster.delete("Pod", rng.choice(pods))
        elif what < 0.95:
            cluster.refuse("the API server is busy (InternalError, HTTP 500)")
        else:
            node = cluster.objects["Node", self.names.format(f"n{rng.randrange(self.nodes)}")]
            spec = msgspec.structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
            cluster.put(msgspec.structs.replace(node, spec=spec))
        for request in tuple(cluster.requests):
            if isinstance(request.effect, EvictPod):
                cluster.answer(request, rng.choice(("", "", "", "no (Conflict, HTTP 409)")))
        for pod in [obj for (kind, _), obj in cluster.objects.items() if kind == "Pod"]:
            if pod.metadata.deletion_timestamp and rng.random() < 0.5:
                cluster.delete("Pod", f"{pod.metadata.namespace}/{pod.metadata.name}")
        cluster.run()

    def _come(self):
        rng = self.random
        pod = make_pod(self.names.format(f"p{self.number}")).request(cpu=rng.choice(("500m", "1", "3")), memory="1Gi")
        pod = pod.priority(rng.choice((0, 0, 10, 1000))).label("app", rng.choice("xyz"))
        pod = pod.owned_by("ReplicaSet", rng.choice("xyz")).uid(self.names.format(f"u{self.number}"))
        if rng.random() < 0.3:
            pod = pod.spread("topology.kubernetes.io/zone", {"app": "x"})
        self.cluster.put(pod)

    def _hear(self, pods):
        """An object has a newer version, with little or nothing new in it."""
        self.version += 1
        rng, cluster = self.random, self.cluster
        is_pod = pods and rng.random() < 0.3
        kind, key = (
            ("Pod", rng.choice(pods)) if is_pod else ("Node", self.names.format(f"n{rng.randrange(self.nodes)}"))
        )
        obj = cluster.objects[kind, key]
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        cluster.put(msgspec.structs.replace(obj, metadata=metadata))
