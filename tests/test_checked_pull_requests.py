"""What `check` says of a pull request is what comes of it when it is applied to the embedded cluster: 40 of them.

Each is drawn from its number: some charts are installed, and one or two things are changed in their manifests as people
change them. The charts have the shapes of widely used ones as they are rendered (workloads, claims, budgets, spreading,
affinity, host ports), with amounts of our own. The cluster is a store with the embedded cluster's controllers and
hollow kubelets, in virtual time, where a core schedules. There the manifests of before are applied as kubectl applies
them, then those of after, and what is gone is deleted last. Of every workload as many pods must have a node as `check`
says, and the verdict must hold; also where the cluster has the manifests of before when it is asked.
"""

import copy
import random
from collections import Counter

import msgspec
import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.template import NodeTemplate
from berth_workbench.planning.check import check
from berth_workbench.simulation.situation import Situation
from berth_workbench.snapshot.documents import parse_manifests
from packages.cluster.tests.controllers import world as manifests
from tests.test_one_admission import snapshot_of
from tests.test_one_kubernetes import Embedded, Scheduling

PULL_REQUESTS = 40
QUICK = 6
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MAKERS = ("Deployment", "StatefulSet", "DaemonSet", "Job")


# --- charts ----------------------------------------------------------------------------------------------------------


def labels(chart, component):
    return {"app.kubernetes.io/name": chart, "app.kubernetes.io/component": component}


def workload(kind, chart, component, replicas=None, cpu="500m", memory="256Mi", **pod):
    chosen, name = labels(chart, component), f"{chart}-{component}"
    ports = pod.pop("ports", [])
    container = {"name": component, "image": f"{chart}:1", "ports": ports}
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"selector": {"matchLabels": chosen}}
    spec["template"] = {"metadata": {"labels": {**chosen, "helm.sh/chart": f"{chart}-1.0.0"},
                                     "annotations": {"checksum/config": "a"}},
                        "spec": {"containers": [container], **pod}}  # fmt: skip
    if replicas is not None:
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def with_claim(stateful_set, size="1Gi"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    stateful_set["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    return stateful_set


def apart(chart, component, key=HOST, *, hard):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels(chart, component)}}
    if hard:
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def budget(chart, component, **bounds):
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": f"{chart}-{component}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels(chart, component)}, **bounds}}  # fmt: skip


def service(chart, component):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{chart}-{component}", "namespace": "default"},
            "spec": {"selector": labels(chart, component), "ports": [{"port": 80}]}}  # fmt: skip


def config(chart):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": chart, "namespace": "default"},
            "data": {"key": "value"}}  # fmt: skip


EVERYWHERE = [{"operator": "Exists"}]
CHARTS = {
    "ingress-nginx": lambda: [
        workload("Deployment", "ingress-nginx", "controller", 2, "1", "90Mi",
                 affinity=apart("ingress-nginx", "controller", hard=False)),
        service("ingress-nginx", "controller"), config("ingress-nginx"),
        budget("ingress-nginx", "controller", minAvailable=1),
    ],
    "redis": lambda: [
        with_claim(workload("StatefulSet", "redis", "master", 1, "500m", "512Mi")),
        with_claim(workload("StatefulSet", "redis", "replicas", 3, "500m", "512Mi",
                            affinity=apart("redis", "replicas", hard=False))),
        service("redis", "master"), budget("redis", "replicas", maxUnavailable=1),
    ],
    "kafka": lambda: [
        with_claim(workload("StatefulSet", "kafka", "broker", 3, "1", "1Gi",
                            affinity=apart("kafka", "broker", hard=True))),
        budget("kafka", "broker", maxUnavailable=1),
    ],
    "prometheus": lambda: [
        workload("Deployment", "prometheus", "operator", 1, "100m"),
        workload("Deployment", "prometheus", "state-metrics", 1, "100m"),
        workload("StatefulSet", "prometheus", "server", 2, "500m", "1Gi"),
        workload("DaemonSet", "prometheus", "node-exporter", None, "100m", "64Mi", hostNetwork=True,
                 tolerations=EVERYWHERE, ports=[{"containerPort": 9100, "hostPort": 9100}]),
    ],
    "cert-manager": lambda: [
        workload("Deployment", "cert-manager", "controller", 1, "100m", "64Mi"),
        workload("Deployment", "cert-manager", "webhook", 1, "100m", "64Mi"),
        workload("Deployment", "cert-manager", "cainjector", 1, "100m", "64Mi"),
    ],
    "fluent-bit": lambda: [
        config("fluent-bit"),
        workload("DaemonSet", "fluent-bit", "agent", None, "200m", "128Mi", tolerations=EVERYWHERE),
    ],
    "shop": lambda: [
        config("shop"),
        workload("Deployment", "shop", "web", 4, "1", "256Mi", topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway",
             "labelSelector": {"matchLabels": labels("shop", "web")}}]),
        workload("Deployment", "shop", "worker", 2, "500m", "512Mi"), service("shop", "web"),
        budget("shop", "web", minAvailable="50%"),
    ],
    "airflow": lambda: [
        workload("Deployment", "airflow", "webserver", 1, "500m", "512Mi"),
        workload("Deployment", "airflow", "scheduler", 2, "500m", "512Mi"),
        with_claim(workload("StatefulSet", "airflow", "worker", 2, "1", "1Gi")),
    ],
}  # fmt: skip
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}


# --- pull requests ---------------------------------------------------------------------------------------------------


def pod_spec(manifest):
    return manifest["spec"]["template"]["spec"]


def scale(rng, one):
    if "replicas" in one["spec"]:
        one["spec"]["replicas"] = max(0, one["spec"]["replicas"] + rng.choice([-2, -1, 1, 2, 4, 8]))


def requests(rng, one):
    pod_spec(one)["containers"][0]["resources"]["requests"]["cpu"] = rng.choice(["50m", "250m", "2", "3500m", "9"])


def checksum(rng, one):
    one["spec"]["template"]["metadata"]["annotations"]["checksum/config"] = "b"


def relabel(rng, one):
    one["metadata"]["labels"] = {"helm.sh/chart": "x-1.0.1"}


def select(rng, one):
    pod_spec(one)["nodeSelector"] = rng.choice([{"pool": "none"}, {"kubernetes.io/os": "linux"}])


def keep_apart(rng, one):
    term = {"topologyKey": rng.choice([HOST, ZONE]), "labelSelector": one["spec"]["selector"]}
    pod_spec(one)["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def recreate(rng, one):
    if one["kind"] == "Deployment":
        one["spec"]["strategy"] = rng.choice(
            [{"type": "Recreate"}, {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}]
        )
        checksum(rng, one)


def important(rng, one):
    pod_spec(one)["priorityClassName"] = "high"


def other_selector(rng, one):
    one["spec"]["selector"]["matchLabels"]["tier"] = "x"
    one["spec"]["template"]["metadata"]["labels"]["tier"] = "x"


def other_claim(rng, one):
    if "volumeClaimTemplates" in one["spec"]:
        one["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi"


CHANGES = (scale, scale, scale, requests, requests, checksum, relabel, select, keep_apart, recreate, important,
           other_selector, other_claim)  # fmt: skip


def quota(rng):
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"},
            "spec": {"hard": {rng.choice(["pods", "requests.cpu"]): str(rng.randint(4, 24))}}}  # fmt: skip


def pull_request(rng):
    """Return the manifests of before and after."""
    installed = rng.sample(sorted(CHARTS), rng.randint(2, 4))
    base = [HIGH, *(each for name in installed for each in CHARTS[name]())]
    if rng.random() < 0.2:
        base.append(quota(rng))
    head = copy.deepcopy(base)
    for _ in range(rng.randint(1, 2)):
        what = rng.random()
        if what < 0.12:
            others = sorted(CHARTS.keys() - set(installed))
            head += CHARTS[rng.choice(others)]()
        elif what < 0.24:
            gone = rng.choice(installed)
            head = [each for each in head if not each["metadata"]["name"].startswith(gone)]
        elif what < 0.3:
            head = [*(each for each in head if each["kind"] != "ResourceQuota"), quota(rng)]
        else:
            workloads = [each for each in head if each["kind"] in MAKERS]
            if workloads:
                rng.choice(CHANGES)(rng, rng.choice(workloads))
    return sorted(base, key=_in_turn), sorted(head, key=_in_turn)


def _in_turn(manifest):
    """As Helm and Argo CD do: what admission goes by before what is admitted."""
    return manifest["kind"] not in ("PriorityClass", "ResourceQuota")


# --- the cluster -----------------------------------------------------------------------------------------------------


class Preempting(Scheduling):
    """The pods that it has evicted are `evictions`, until somebody takes them."""

    def __init__(self):
        super().__init__()
        self.evictions = []

    def evicted(self, pod, eviction):
        self.evictions.append(pod)


class Cluster(Embedded):
    """Five nodes of 4 CPUs in two zones, and volumes that any node can reach."""

    def __init__(self):
        super().__init__()
        create_nodes(self.store, NodeTemplate(name_prefix="n-", cpu="4", memory="8Gi", zones=("a", "b")), 5)
        for number in range(12):
            self.create(manifests.volume(f"volume-{number}"))
        self._core = Preempting()
        self._changes = [("ADDED", kind, each) for kind in ("Node", "PersistentVolume") for each in self.all(kind)]
        self.settle()

    def _bind_pending(self):
        done = super()._bind_pending()
        leaving, self._core.evictions = getattr(self._core, "evictions", []), []
        for pod in leaving:
            self.delete("Pod", pod.metadata.name)
        return done + len(leaving)

    def apply(self, before, after):
        """What kubectl does with an object; what the API server refuses stays as it was, and is returned."""
        namespace = after["metadata"].get("namespace", "")
        resource, name = resource_of(after["kind"]), after["metadata"]["name"]
        try:
            if before is None:
                self.store.create(resource, namespace, after)
            else:
                self.store.patch(resource, namespace, name, merge_patch(before, after), "application/merge-patch+json")
        except StoreError as error:
            return f"{after['kind']} {name}: {error.message}"
        finally:
            self.run(1.0)
        return ""

    def bring(self, before, after):
        """Apply all that differs, delete what is gone, and let it come to rest; return what was refused."""
        was, now = ({(each["kind"], each["metadata"]["name"]): each for each in side} for side in (before, after))
        told = [self.apply(was.get(key), each) for key, each in now.items() if was.get(key) != each]
        self.settle()
        for kind, name in was.keys() - now.keys():
            self.delete(kind, name, was[kind, name]["metadata"].get("namespace", ""), propagationPolicy="Background")
        self.settle()
        return [each for each in told if each]

    def newest(self):
        """Of each workload, how many pods of its newest template have a node."""
        sets = {each["metadata"]["uid"]: each for each in self.all("ReplicaSet")}
        latest = {}
        for each in sets.values():
            owner = each["metadata"]["ownerReferences"][0]["uid"]
            revision = int(each["metadata"]["annotations"]["deployment.kubernetes.io/revision"])
            latest[owner] = max(latest.get(owner, (0, "")), (revision, each["metadata"]["uid"]))
        found = Counter()
        for pod in self.pods():
            (owner,) = pod["metadata"]["ownerReferences"]
            kind, name, uid = owner["kind"], owner["name"], owner["uid"]
            if kind == "ReplicaSet":
                of = sets[uid]["metadata"]["ownerReferences"][0]
                if latest[of["uid"]][1] != uid:
                    continue
                kind, name = "Deployment", of["name"]
            elif kind == "StatefulSet":
                status = self.get("StatefulSet", name)["status"]
                if pod["metadata"]["labels"]["controller-revision-hash"] != status.get("updateRevision"):
                    continue
            elif kind == "DaemonSet":
                made = self.get("DaemonSet", name)["spec"]["template"]["spec"]["containers"]
                if pod["spec"]["containers"][0]["resources"] != made[0]["resources"]:
                    continue
            found[kind, name] += bool(pod["spec"].get("nodeName"))
        return found


def merge_patch(before, after):
    """What kubectl sends of an object that it has applied before; lists are replaced as a whole."""
    patch = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        if before.get(key) != value:
            both = isinstance(value, dict) and isinstance(before.get(key), dict)
            patch[key] = merge_patch(before[key], value) if both else value
    if isinstance(patch.get("strategy"), dict) and patch["strategy"].get("type") == "Recreate":
        patch["strategy"]["rollingUpdate"] = None  # of a strategy, kubectl keeps what it names (`retainKeys`)
    return patch


def documents(side):
    return list(parse_manifests(b"\n".join(map(msgspec.json.encode, side)), "the pull request"))


@pytest.mark.parametrize(
    "number",
    [pytest.param(at, marks=[pytest.mark.long] if at >= QUICK else []) for at in range(PULL_REQUESTS)],
)
def test_a_pull_request_comes_to_what_was_said_of_it(number):
    """Asked of a cluster that has nothing yet, and of the one that has the manifests of before."""
    base, head = pull_request(random.Random(number))
    cluster = Cluster()
    empty = snapshot_of(cluster)
    cluster.bring([], base)
    asked = [check(Situation(each), documents(base), documents(head)) for each in (empty, snapshot_of(cluster))]
    refused = cluster.bring(base, head)
    placed = cluster.newest()
    for found in asked:
        said = {(each.kind, each.name): each.placed for each in found.workloads if each.after or each.placed}
        done = {key: placed[key[0], key[1].partition("/")[2]] for key in said}
        assert said == done, [each.text for each in found.findings]
        short = [key for key in said if _wanted(cluster, key) > done[key]]
        assert (found.fits == "no") == bool(short or refused), [each.text for each in found.findings]


def _wanted(cluster, key):
    kind, name = key[0], key[1].partition("/")[2]
    workload = cluster.get(kind, name)
    if kind == "DaemonSet":
        return workload["status"]["desiredNumberScheduled"]
    return workload["spec"]["replicas"]
