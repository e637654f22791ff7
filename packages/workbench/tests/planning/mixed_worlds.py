"""Small random clusters with all that makes answers about one part of a cluster depend on the rest of it.

Pods that are pending before anything is asked, priorities, budgets, pods that keep apart or go together, spread,
taints, gangs, gated pods and pods that are being deleted, pods without a controller, of Jobs and of ReplicaSets. Pods
run where there is room for what they request; the other rules they may break, as where labels have changed since.
"""

import random
from functools import cache

import msgspec
import pytest

from berth.api.pod import Pod
from berth.config.feature_gates import feature_gates
from berth.config.load import document_enabling, load_config
from berth.framework.setup import Setup
from berth.plugins.registry import full_registry
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot
from tests.effort import worlds_of

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NOW = "2026-01-01T12:00:00Z"


def worlds(few):
    """The seeds of a few worlds, of twenty more in `make test-all`, and of three hundred in hours of `make soak`.

    All but the first are asked twenty at a time, which is enough to insist on what has to come up among them.
    """
    last = few + worlds_of(300, in_all=20)
    many = [pytest.param(range(at, at + 20), marks=pytest.mark.long) for at in range(few, last, 20)]
    return pytest.mark.parametrize("seeds", [range(few), *many], ids=lambda seeds: f"{seeds.start}-{seeds.stop}")


@cache
def registry():
    """The plugins; looking for those of other packages takes longer than a small cluster."""
    return full_registry()


@cache
def looks_at_groups():
    """The default configuration, with the feature gates for gangs."""
    gates = feature_gates({"GenericWorkload": True, "GangScheduling": True})
    return load_config(document_enabling({}), "a test", gates)


class MixedWorld:
    """Manifests, and how to ask of them."""

    def __init__(self, seed, largest=6):
        self.rng = rng = random.Random(seed)
        self.nodes = [self._node(number) for number in range(rng.randrange(2, largest))]
        self.free = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) for each in self.nodes}
        self.pods, self.others = [], []
        for name in rng.sample("abcdefgh", rng.randrange(1, 7)):
            self._workload(name)
        self.config = looks_at_groups()

    @property
    def manifests(self):
        return [*self.nodes, *self.others, *self.pods]

    def snapshot(self, *, without=()):
        """A snapshot, without the pods of these names."""
        kept = [each for each in self.manifests if each["kind"] != "Pod" or each["metadata"]["name"] not in without]
        return Snapshot(
            [Document(each["kind"], msgspec.json.encode(each), "a test") for each in kept], Header(taken=NOW)
        )

    def at_rest(self, seed=0):
        """The cluster, with what is pending placed as far as it fits."""
        site = Site.of(self.snapshot(), Setup(self.config, registry()), seed=seed)
        if any(is_pending(pod) for pod in site.cluster.of(Pod)):
            site.settle()
        site.cluster.publish_budgets()
        return site

    def _node(self, number):
        rng = self.rng
        labels = {HOSTNAME: f"n{number}", ZONE: rng.choice("abc"[: rng.randrange(1, 4)]), "pool": rng.choice("pq")}
        spec = {}
        if rng.random() < 0.15:
            spec["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
        if rng.random() < 0.05:
            spec["unschedulable"] = True
        room = {"cpu": str(rng.randrange(1, 7)), "memory": "16Gi", "pods": str(rng.choice([3, 20, 20]))}
        return {
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": labels},
            "spec": spec,
            "status": {"allocatable": room},
        }

    def _workload(self, name):
        rng = self.rng
        kind = rng.choice(["ReplicaSet", "ReplicaSet", "ReplicaSet", "ReplicaSet", "Job", "StatefulSet", ""])
        spec, labels = self._spec(name), {"app": name}
        gang = kind in ("ReplicaSet", "Job") and rng.random() < 0.15
        count = rng.randrange(1, 5)
        if gang:
            spec["schedulingGroup"] = {"podGroupName": name}
            policy = {"gang": {"minCount": rng.randrange(1, count + 1)}}
            self.others.append(_object("scheduling.k8s.io/v1alpha1", "PodGroup", name, {"schedulingPolicy": policy}))
        if kind == "Job":
            self.others.append(self._job(name, count))
        if rng.random() < 0.3:
            bounds = rng.choice([{"minAvailable": rng.randrange(0, 3)}, {"maxUnavailable": rng.randrange(0, 2)}])
            bounds |= {"selector": {"matchLabels": labels}}
            self.others.append(_object("policy/v1", "PodDisruptionBudget", name, bounds))
        waits = rng.random() < 0.3
        for number in range(count):
            self._pod(f"{name}{number}", kind, name, labels, spec, is_pending=waits and rng.random() < 0.6)

    def _job(self, name, count):
        return _object("batch/v1", "Job", name, {"parallelism": count, "completions": count})

    def _spec(self, name):
        rng = self.rng
        requests = {"cpu": f"{rng.choice([500, 1000, 1000, 2000, 3000])}m", "memory": "256Mi"}
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
        spec["priority"] = rng.choice([0, 0, 0, 10, 20])
        if rng.random() < 0.15:
            spec["preemptionPolicy"] = "Never"
        if rng.random() < 0.3:
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        if rng.random() < 0.15:
            spec["nodeSelector"] = {"pool": rng.choice("pq")}
        kind = rng.random()
        if kind < 0.35:
            others = rng.choice([name, name, *"abcdefgh"])
            term = {"labelSelector": {"matchLabels": {"app": others}}, "topologyKey": rng.choice([ZONE, HOSTNAME])}
            how = "podAffinity" if rng.random() < 0.15 else "podAntiAffinity"
            spec["affinity"] = {how: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif kind < 0.55:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": rng.randrange(1, 3),
                    "topologyKey": rng.choice([ZONE, HOSTNAME]),
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": name}},
                }
            ]
        return spec

    def _pod(self, name, kind, owner, labels, spec, *, is_pending):
        rng = self.rng
        cpu = int(spec["containers"][0]["resources"]["requests"]["cpu"][:-1]) / 1000
        metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
        metadata["creationTimestamp"] = f"2026-01-01T{rng.randrange(0, 12):02}:00:00Z"
        status = {"phase": "Pending"}
        if kind:
            version = "batch/v1" if kind == "Job" else "apps/v1"
            metadata["ownerReferences"] = [
                {"apiVersion": version, "kind": kind, "name": owner, "uid": owner, "controller": True}
            ]
        places = [node for node, free in self.free.items() if free >= cpu and not self._is_full(node)]
        if not is_pending and places:
            node = rng.choice(places)
            self.free[node] -= cpu
            spec = {**spec, "nodeName": node}
            status = {"phase": "Running"}
            if rng.random() < 0.5:
                status["startTime"] = f"2026-01-01T{rng.randrange(0, 12):02}:30:00Z"
            if rng.random() < 0.06:
                metadata |= {"deletionTimestamp": f"2026-01-01T12:0{rng.randrange(0, 9)}:30Z"}
        elif rng.random() < 0.15 and "schedulingGroup" not in spec:
            spec = {**spec, "schedulingGates": [{"name": "later"}]}
        self.pods.append({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})

    def _is_full(self, name):
        room = next(each["status"]["allocatable"] for each in self.nodes if each["metadata"]["name"] == name)
        return sum(pod["spec"].get("nodeName") == name for pod in self.pods) >= int(room["pods"])


def _object(api_version, kind, name, spec):
    metadata = {"name": name, "namespace": "default", "uid": f"{kind}-{name}"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
