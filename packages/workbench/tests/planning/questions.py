"""Random clusters with everything that owns pods, and random questions about them, for the oracle of what-ifs.

A `World` is manifests: nodes in zones with taints and cordons, workloads with the objects of their controllers, bare
pods and budgets. Pods run where the plain rules of `checker.py` let them, or are pending, so that each workload has as
many as it wants at the beginning.
"""

import random

from packages.workbench.tests.planning import checker
from packages.workbench.tests.planning.worlds import HOSTNAME, ZONE, bound

KINDS = ("Deployment", "Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet")
API_VERSIONS = {"ReplicationController": "v1", "Job": "batch/v1"}
SHORT = {
    "Deployment": "deployment",
    "ReplicaSet": "rs",
    "StatefulSet": "sts",
    "ReplicationController": "rc",
    "Job": "job",
    "DaemonSet": "ds",
}
TEAM = {"key": "team", "effect": "NoSchedule"}


class Asked:
    """A workload of a world."""

    def __init__(self, kind, name, wanted, spec, revisions=1):
        self.kind, self.name, self.wanted, self.spec = kind, name, wanted, spec
        self.revisions = revisions
        """How many ReplicaSets a Deployment has; the last is the newest."""
        self.by_revision = [0] * revisions
        """How many pods each has."""

    @property
    def selector(self):
        return {"matchLabels": {"app": self.name}}

    def set_name(self, number):
        return f"{self.name}-{'abcdef'[number]}5" if self.kind == "Deployment" else self.name

    def labels(self, number):
        return {"app": self.name} | ({"pod-template-hash": f"{'abcdef'[number]}5"} if self.kind == "Deployment" else {})

    def owner(self, number):
        kind = "ReplicaSet" if self.kind == "Deployment" else self.kind
        name = self.set_name(number)
        return {
            "apiVersion": API_VERSIONS.get(kind, "apps/v1"),
            "kind": kind,
            "name": name,
            "uid": f"{kind}-{name}",
            "controller": True,
        }

    def manifest(self):
        """The workload's own object."""
        template = {"metadata": {"labels": {"app": self.name}}, "spec": self.spec}
        spec = {"template": template}
        if self.kind == "Job":
            spec |= {"parallelism": self.wanted, "completions": self.wanted}
        elif self.kind == "ReplicationController":
            spec |= {"replicas": self.wanted, "selector": {"app": self.name}}
        elif self.kind == "DaemonSet":
            spec |= {"selector": self.selector}
        else:
            spec |= {"replicas": self.wanted, "selector": self.selector}
        return {
            "apiVersion": API_VERSIONS.get(self.kind, "apps/v1"),
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": "default", "uid": f"{self.kind}-{self.name}"},
            "spec": spec,
        }

    def sets(self):
        """The ReplicaSets of a Deployment."""
        if self.kind != "Deployment":
            return
        for number in range(self.revisions):
            hashed = self.labels(number)
            yield {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": self.set_name(number),
                    "namespace": "default",
                    "uid": f"ReplicaSet-{self.set_name(number)}",
                    "labels": hashed,
                    "annotations": {"deployment.kubernetes.io/revision": str(number + 1)},
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "Deployment",
                            "name": self.name,
                            "uid": f"Deployment-{self.name}",
                            "controller": True,
                        }
                    ],
                },
                "spec": {
                    "replicas": self.by_revision[number],
                    "selector": {"matchLabels": hashed},
                    "template": {"metadata": {"labels": hashed}, "spec": self.spec},
                },
            }


def random_node(rng, number, zones):
    name = f"n{number}"
    labels = {HOSTNAME: name, "disk": rng.choice(["ssd", "hdd"]), ZONE: rng.choice(zones)}
    spec = {}
    if rng.random() < 0.15:
        spec["unschedulable"] = True
    if rng.random() < 0.2:
        spec["taints"] = [{**TEAM, "value": rng.choice("xy")}]
    allocatable = {"cpu": rng.randrange(2, 9), "memory": f"{rng.randrange(2, 17)}Gi", "pods": rng.choice([3, 8, 30])}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {key: str(each) for key, each in allocatable.items()}},
    }


def random_spec(rng, app):
    requests = {"cpu": f"{rng.randrange(1, 9) * 250}m", "memory": f"{rng.randrange(1, 9) * 256}Mi"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    if rng.random() < 0.3:
        spec["priority"] = rng.choice([-10, 10, 100, 1000])
    if rng.random() < 0.1:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": rng.choice([80, 81])}]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd"])}
    if rng.random() < 0.3:
        spec["tolerations"] = [{**TEAM, "value": rng.choice("xy")}]
    elif rng.random() < 0.1:
        spec["tolerations"] = [{"operator": "Exists"}]
    if rng.random() < 0.15:
        wanted = {"key": "disk", "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(["ssd", "hdd"])]}
        term = {"weight": 10, "preference": {"matchExpressions": [wanted]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    among = {"matchLabels": {"app": app}}
    chance, key = rng.random(), rng.choice([ZONE, HOSTNAME])
    if chance < 0.25:
        term = {"labelSelector": among, "topologyKey": key}
        spec.setdefault("affinity", {})["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif chance < 0.5:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.randrange(1, 3),
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": among,
                **rng.choice([{}, {}, {"nodeTaintsPolicy": "Honor"}, {"minDomains": 2}]),
            }
        ]
    elif chance < 0.6:
        term = {"labelSelector": among, "topologyKey": key}
        spec.setdefault("affinity", {})["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return spec


class World:
    """The manifests of a cluster."""

    def __init__(self, rng):
        zones = ["z1", "z2", "z3"][: rng.randrange(1, 4)]
        large = rng.random() < 0.2
        count = rng.randrange(8, 16) if large else rng.randrange(2, 8)
        self.nodes = [random_node(rng, number, zones) for number in range(count)]
        self.workloads = []
        self.pods = []
        self._running = []
        for number in range(rng.randrange(5, 10) if large else rng.randrange(1, 5)):
            self._add_workload(rng, f"w{number}")
        for number in range(rng.randrange(3)):
            app = f"w{rng.randrange(4)}"
            self._add_pod(rng, f"bare-{number}", {"app": app}, None, random_spec(rng, app))
        self.budgets = [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": each.name, "namespace": "default"},
                "spec": {"selector": each.selector, **rng.choice([{"minAvailable": 1}, {"maxUnavailable": 1}])},
            }
            for each in self.workloads
            if rng.random() < 0.3
        ]

    def _add_workload(self, rng, name):
        kind = rng.choice(KINDS)
        made = Asked(kind, name, rng.randrange(0, 6), random_spec(rng, name), rng.choice([1, 1, 2]))
        self.workloads.append(made)
        if kind == "DaemonSet":
            self._add_daemons(made)
            return
        for number in range(made.wanted):
            revision = rng.randrange(made.revisions)
            made.by_revision[revision] += 1
            owner = made.owner(revision)
            pod_name = f"{owner['name']}-{number}"
            self._add_pod(rng, pod_name, made.labels(revision), owner, made.spec)
        if kind in ("Deployment", "ReplicaSet", "ReplicationController"):
            for number in range(rng.choice([0, 0, 0, 1, 2])):
                self._add_remains(rng, made, number)

    def _add_daemons(self, made):
        made.spec.pop("affinity", None)
        made.spec.pop("topologySpreadConstraints", None)
        for node in self.nodes:
            name = node["metadata"]["name"]
            pod = self._pod(f"{made.name}-{name}", {"app": made.name}, made.owner(0), made.spec)
            pod["spec"]["tolerations"] = [
                *pod["spec"].get("tolerations", ()),
                {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
            ]
            term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            pod["spec"]["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            }
            free = {**node, "spec": {key: each for key, each in node["spec"].items() if key != "unschedulable"}}
            if not checker.allows(pod, free):
                continue
            if checker.fits(pod, free, self.nodes, self._running):
                self._running.append((pod, name))
                pod = bound(pod, name)
            self.pods.append(pod)

    def _pod(self, name, labels, owner, spec):
        metadata = {"name": name, "namespace": "default", "uid": f"Pod-{name}", "labels": labels}
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": dict(spec)}

    def _add_pod(self, rng, name, labels, owner, spec):
        pod = self._pod(name, labels, owner, spec)
        places = [node for node in self.nodes if checker.fits(pod, node, self.nodes, self._running)]
        if places and "podAffinity" in spec.get("affinity", {}):
            places = self._with_own(spec["affinity"]["podAffinity"], labels, places)
        if places and rng.random() < 0.85:
            node = rng.choice(places)["metadata"]["name"]
            self._running.append((pod, node))
            pod = bound(pod, node)
        elif rng.random() < 0.2:  # as a preemptor is that waits for its victims, which are gone by now
            pod["status"] = {"nominatedNodeName": rng.choice(self.nodes)["metadata"]["name"]}
        self.pods.append(pod)

    def _add_remains(self, rng, made, number):
        """A pod that its controller does not count any more: it has failed, or is being deleted."""
        owner = made.owner(made.revisions - 1)
        pod = self._pod(f"{owner['name']}-old{number}", made.labels(made.revisions - 1), owner, made.spec)
        places = [node for node in self.nodes if checker.fits(pod, node, self.nodes, self._running)]
        if not places or "podAffinity" in made.spec.get("affinity", {}):
            return
        node = rng.choice(places)["metadata"]["name"]
        if rng.random() < 0.5:
            self.pods.append({**bound(pod, node), "status": {"phase": "Failed"}})
        else:
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
            self._running.append((pod, node))
            self.pods.append(bound(pod, node))

    def _with_own(self, affinity, labels, places):
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        key = term["topologyKey"]
        there = {name for pod, name in self._running if pod["metadata"]["labels"]["app"] == labels["app"]}
        domains = {checker.label(node, key) for node in self.nodes if node["metadata"]["name"] in there}
        return [node for node in places if not domains or checker.label(node, key) in domains]

    def manifests(self, rng):
        """Everything, as `berth snapshot` would have it; some have the workloads' own objects left out."""
        found = [*self.nodes, *self.budgets]
        for each in self.workloads:
            found += each.sets()
            # What nothing tells of is known by its pods only; a DaemonSet's manifest is needed to know where it runs.
            if each.kind == "DaemonSet" or not each.wanted or rng.random() < 0.8:
                found.append(each.manifest())
        return [*found, *self.pods]


def random_question(rng, world):
    """One to four changes, as flags: pairs of a step and what follows it."""
    nodes = [node["metadata"]["name"] for node in world.nodes]
    zones = sorted({checker.label(node, ZONE) for node in world.nodes})
    scalable = [each for each in world.workloads if each.kind != "DaemonSet"]
    gone, lost, found = set(), set(), []
    for _ in range(rng.randrange(1, 4)):
        left = [name for name in nodes if name not in gone]
        flag = rng.choice(FLAGS)
        node = rng.choice(left) if left else ""
        if flag in NODE_FLAGS and not node:
            continue
        if flag == "loseZone":
            zone = rng.choice(zones)
            members = {each["metadata"]["name"] for each in world.nodes if checker.label(each, ZONE) == zone}
            if not members - gone or any(step == "addNodes" for step, _ in found):
                continue
            gone |= members
            found.append((flag, zone))
        elif flag == "scale":
            some = [each for each in scalable if each.name not in lost]
            if some:
                each = rng.choice(some)
                found.append((flag, f"{SHORT[each.kind]}/{each.name}={rng.choice([0, 1, 3, 7, 22])}"))
        elif flag == "delete":
            some = [each for each in world.workloads if each.name not in lost]
            if some:
                each = rng.choice(some)
                lost.add(each.name)
                found.append((flag, f"{SHORT[each.kind]}/{each.name}"))
        elif flag == "addNodes":
            found.append((flag, f"{rng.randrange(1, 3)}={node}"))
        elif flag == "taint":
            effect = rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
            found.append((flag, f"{node}:team={rng.choice('xyz')}:{effect}"))
        elif flag == "untaint":
            found.append((flag, f"{node}:team"))
        elif flag == "label":
            found.append((flag, f"{node}:disk={rng.choice(['ssd', 'hdd'])}"))
        else:
            gone |= {node} if flag == "removeNodes" else set()
            found.append((flag, node))
    return [*_evictions(random.Random(f"{found}"), world), *found]


def _evictions(rng, world):
    """Some pods to evict, now and then. They come first, while it is known who is there; bare ones may be preempted."""
    owned = [pod["metadata"]["name"] for pod in world.pods if pod["metadata"].get("ownerReferences")]
    if owned and rng.random() < 0.25:
        yield "evict", ",".join(rng.sample(owned, min(len(owned), rng.randrange(1, 4))))


NODE_FLAGS = ("drain", "cordon", "uncordon", "removeNodes", "addNodes", "taint", "untaint", "label", "upgrade")
FLAGS = (*NODE_FLAGS, "loseZone", "scale", "scale", "delete")
