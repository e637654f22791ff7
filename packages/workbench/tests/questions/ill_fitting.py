"""Small random clusters whose objects do not fit together, as in a snapshot taken in the middle of things.

First a cluster of a bit of everything, which fits; then objects are left out and fields changed at random: a node whose
pods are still bound to it, a workload that is gone while its pods run, claims without their class, members that end.
"""

import copy
import random

import msgspec

from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot, last_of_each

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NOW = "2026-01-01T12:00:00Z"
GPU = "example.com/gpu"
DRIVER = "gpu.example.com"
OWNERS = ("Deployment", "ReplicaSet", "StatefulSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
API = {
    "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
    "Job": "batch/v1", "ReplicationController": "v1",
}  # fmt: skip
LEFT_OUT = {
    "Node": 0.15, "Namespace": 0.3, "StorageClass": 0.4, "PersistentVolume": 0.3, "PersistentVolumeClaim": 0.3,
    "DeviceClass": 0.3, "ResourceSlice": 0.3, "ResourceClaim": 0.3, "ResourceClaimTemplate": 0.3, "PriorityClass": 0.4,
    "PodGroup": 0.3, "PodDisruptionBudget": 0.1, "ResourceQuota": 0.1, "LimitRange": 0.1, "CSINode": 0.3, "Pod": 0.1,
} | dict.fromkeys(OWNERS, 0.3)  # fmt: skip
"""How likely an object of each kind is left out, in a cluster where objects of that kind are."""


FIELDS = {
    "Node": [
        ("status.allocatable",), ("metadata.labels",), ("status",), ("metadata.deletionTimestamp", NOW),
        ("spec.taints", [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
        ("spec.unschedulable", True), ("status.allocatable", {"cpu": "0", "pods": "0"}),
    ],
    "PersistentVolumeClaim": [
        ("status.phase", "Lost"), ("spec.volumeName", "nosuch"), ("spec.storageClassName",),
        ("spec.storageClassName", ""), ("metadata.deletionTimestamp", NOW),
    ],
    "PersistentVolume": [
        ("spec.claimRef",), ("spec.claimRef", {"namespace": "t0", "name": "nosuch"}), ("spec.nodeAffinity",),
        ("status.phase", "Released"),
    ],
    "PodDisruptionBudget": [("spec.selector",), ("spec.minAvailable", "101%"), ("spec", {})],
    "ResourceClaim": [
        ("status",), ("status.reservedFor",), ("spec.devices.requests", []),
        ("status.allocation.devices.results", [{"request": "r", "driver": "no", "pool": "no", "device": "no"}]),
    ],
    "ResourceSlice": [("spec.nodeName", "gone"), ("spec.devices", []), ("spec.pool.generation", 7)],
    "ReplicaSet": [("metadata.ownerReferences",), ("metadata.labels",), ("spec.replicas",)],
    "Deployment": [("spec.replicas", 0), ("spec.selector",), ("metadata.uid",)],
    "StatefulSet": [
        ("spec.ordinals", {"start": 3}), ("spec.volumeClaimTemplates", []), ("spec.podManagementPolicy", "Parallel"),
        ("spec.updateStrategy", {"type": "OnDelete"}),
    ],
    "Job": [("spec.completions",), ("spec.parallelism", 0), ("spec.suspend", True)],
    "PodGroup": [("spec", {}), ("spec.schedulingPolicy", {"basic": {}}),
                 ("spec.schedulingPolicy.gang.minCount", 99)],
    "StorageClass": [("volumeBindingMode",), ("provisioner", "nosuch")],
    "ResourceQuota": [("spec.hard", {"pods": "0"}), ("spec", {})],
}  # fmt: skip
"""What is changed of objects of a kind: a field, and its value, or none."""


def made(kind, name, spec=None, *, namespace="", api="v1", **others):
    """A document."""
    metadata = {"name": name, "uid": f"{kind}-{namespace}-{name}", **others.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    document = {"apiVersion": api, "kind": kind, "metadata": metadata, **others}
    return document if spec is None else document | {"spec": spec}


class IllFittingWorld:
    """Documents, and a snapshot of them."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.documents = []
        self.node_names = [f"n{at}" for at in range(rng.randrange(3, 10))]
        self._base()
        for name in self.node_names:
            self._node(name)
        for at in range(rng.randrange(2, 7)):
            self._workload(f"w{at}", rng.choice(OWNERS), rng.choice(["t0", "t1", "default"]))
        for at in range(rng.randrange(0, 4)):
            self._bare(f"bare-{at}", rng.choice(["t0", "default"]))
        self._break()

    def snapshot(self):
        """The cluster as the questions get it."""
        given = msgspec.json.encode({"kind": "List", "items": self.documents})
        return Snapshot(last_of_each(list(parse_documents(given, "a test"))), Header(taken=NOW))

    def named(self, kind):
        """The documents of a kind."""
        return [each for each in self.documents if each["kind"] == kind]

    # -- what fits ---------------------------------------------------------------------------------------------------

    def _base(self):
        rng = self.rng
        self.documents += [made("Namespace", name) for name in ("default", "t0", "t1")]
        for name, value in (("high", 100), ("low", -5)):
            self.documents.append(made("PriorityClass", name, api="scheduling.k8s.io/v1", value=value))
        for name, mode in (("late", "WaitForFirstConsumer"), ("early", "Immediate")):
            how = {"provisioner": rng.choice(["csi.example.com", "kubernetes.io/no-provisioner"])}
            self.documents.append(made("StorageClass", name, api="storage.k8s.io/v1", volumeBindingMode=mode, **how))
        selector = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        self.documents.append(made("DeviceClass", "gpu", {"selectors": selector}, api="resource.k8s.io/v1"))
        for namespace in ("default", "t0"):
            if rng.random() < 0.5:
                spec = {"hard": {"requests.cpu": "20", "pods": "30"}}
                self.documents.append(made("ResourceQuota", "quota", spec, namespace=namespace))
            if rng.random() < 0.3:
                limit = {"type": "Container", "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "8"}}
                self.documents.append(made("LimitRange", "limits", {"limits": [limit]}, namespace=namespace))

    def _node(self, name):
        rng = self.rng
        labels = {HOSTNAME: name, ZONE: rng.choice("abc"), "pool": rng.choice("pq")}
        spec = {}
        if rng.random() < 0.15:
            spec["taints"] = [{"key": "team", "value": "x", "effect": rng.choice(["NoSchedule", "NoExecute"])}]
        if rng.random() < 0.08:
            spec["unschedulable"] = True
        room = {"cpu": str(rng.randrange(1, 8)), "memory": "16Gi", "pods": str(rng.choice([3, 8, 20]))}
        if rng.random() < 0.3:
            room[GPU] = "2"
        status = {"allocatable": room, "capacity": room}
        self.documents.append(made("Node", name, spec, metadata={"labels": labels}, status=status))
        if rng.random() < 0.4:
            devices = [{"name": f"d{at}", "attributes": {"memory": {"int": 40 + at}}} for at in range(2)]
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
            self.documents.append(made("ResourceSlice", f"slice-{name}", spec, api="resource.k8s.io/v1"))
        if rng.random() < 0.4:
            drivers = [{"name": "csi.example.com", "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": 2}}]
            self.documents.append(made("CSINode", name, {"drivers": drivers}, api="storage.k8s.io/v1"))

    def _spec(self, name, namespace):
        rng = self.rng
        requests = {"cpu": f"{rng.choice([250, 500, 1000, 1000, 2000, 3000])}m", "memory": "256Mi"}
        if rng.random() < 0.1:
            requests[GPU] = "1"
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        spec = {"containers": [container]}
        if rng.random() < 0.3:
            spec["priorityClassName"], spec["priority"] = rng.choice([("high", 100), ("low", -5)])
        if rng.random() < 0.2:
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        if rng.random() < 0.2:
            spec["nodeSelector"] = {"pool": rng.choice(["p", "q", "none"])}
        if rng.random() < 0.1:
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
        if rng.random() < 0.25:
            others = rng.choice([name, "w0", "w1"])
            term = {"labelSelector": {"matchLabels": {"app": others}}, "topologyKey": rng.choice([ZONE, HOSTNAME])}
            how = rng.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
            spec["affinity"] = {how: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif rng.random() < 0.2:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": rng.choice([ZONE, HOSTNAME]), "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": name}}}
            ]  # fmt: skip
        if rng.random() < 0.15:
            template = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}}
            api = "resource.k8s.io/v1"
            self.documents.append(made("ResourceClaimTemplate", name, template, namespace=namespace, api=api))
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
            container["resources"] = {**container["resources"], "claims": [{"name": "gpu"}]}
        return spec

    def _workload(self, name, kind, namespace):
        rng = self.rng
        labels = {"app": name}
        spec = self._spec(name, namespace)
        count = rng.randrange(1, 6)
        template = {"metadata": {"labels": labels}, "spec": copy.deepcopy(spec)}
        template["spec"].pop("priority", None)
        own = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
        claims = kind == "StatefulSet" and rng.random() < 0.5
        if kind == "Job":
            own = {"parallelism": count, "completions": count, "template": template}
            if rng.random() < 0.3:
                own["completionMode"] = "Indexed"
        if kind == "DaemonSet":
            own.pop("replicas")
        if kind == "ReplicationController":
            own["selector"] = labels
        if claims:
            request = {"accessModes": ["ReadWriteOnce"], "storageClassName": rng.choice(["late", "early"]),
                       "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
            own["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": request}]
        if kind in ("ReplicaSet", "Job", "Deployment") and rng.random() < 0.15:
            spec["schedulingGroup"] = {"podGroupName": name}
            policy = {"schedulingPolicy": {"gang": {"minCount": rng.randrange(1, count + 1)}}}
            group = made("PodGroup", name, policy, namespace=namespace, api="scheduling.k8s.io/v1alpha1")
            self.documents.append(group)
        document = made(kind, name, own, namespace=namespace, api=API[kind])
        self.documents.append(document)
        owner, prefix = document, name
        if kind == "Deployment":
            metadata = {"labels": labels | {"pod-template-hash": "5d4"}, "ownerReferences": [reference(document)]}
            replica_set = made("ReplicaSet", f"{name}-5d4", own, namespace=namespace, api="apps/v1", metadata=metadata)
            self.documents.append(replica_set)
            owner, prefix, labels = replica_set, f"{name}-5d4", labels | {"pod-template-hash": "5d4"}
        if rng.random() < 0.3:
            bounds = rng.choice([{"minAvailable": rng.randrange(0, 3)}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
            selector = {"selector": {"matchLabels": {"app": name}}}
            self.documents.append(
                made("PodDisruptionBudget", name, bounds | selector, namespace=namespace, api="policy/v1")
            )
        places = self.node_names if kind == "DaemonSet" else [""] * count
        waits = rng.random() < 0.5
        for at, place in enumerate(places):
            its = labels
            if kind == "StatefulSet":
                its = labels | {"apps.kubernetes.io/pod-index": str(at), "controller-revision-hash": f"{name}-1"}
            pod = f"{prefix}-{at}" if kind == "StatefulSet" else f"{prefix}-{chr(97 + at)}xyz"
            node = place or ("" if waits and rng.random() < 0.6 else rng.choice(self.node_names))
            self._pod(pod, namespace, its, spec, owner, node, claim=f"data-{pod}" if claims else "")

    def _bare(self, name, namespace):
        node = self.rng.choice(["", self.rng.choice(self.node_names)])
        claim = self.rng.choice(["", f"{name}-data"])
        self._pod(name, namespace, {"app": "bare"}, self._spec(name, namespace), None, node, claim=claim)

    def _pod(self, name, namespace, labels, spec, owner, node, *, claim):
        rng = self.rng
        spec = copy.deepcopy(spec)
        metadata = {"labels": labels, "creationTimestamp": f"2026-01-01T{rng.randrange(0, 12):02}:00:00Z"}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        status = {"phase": "Running" if node else "Pending"}
        if node:
            spec["nodeName"] = node
            status["conditions"] = [{"type": "Ready", "status": rng.choice(["True", "True", "False"])}]
        pod = made("Pod", name, spec, namespace=namespace, metadata=metadata, status=status)
        self.documents.append(pod)
        if claim:
            self._claim(claim, namespace, node)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        for each in spec.get("resourceClaims", ()):
            self._resource_claim(f"{name}-{each['name']}", namespace, pod, each["name"], node)

    def _claim(self, name, namespace, node):
        rng = self.rng
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": rng.choice(["late", "early"]),
                "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
        status = {"phase": "Pending"}
        if node or rng.random() < 0.3:
            spec["volumeName"], status = f"pv-{namespace}-{name}", {"phase": "Bound"}
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [rng.choice("abc")]}]}
            volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                      "storageClassName": spec["storageClassName"],
                      "claimRef": {"namespace": namespace, "name": name},
                      "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}  # fmt: skip
            self.documents.append(made("PersistentVolume", spec["volumeName"], volume, status={"phase": "Bound"}))
        self.documents.append(made("PersistentVolumeClaim", name, spec, namespace=namespace, status=status))

    def _resource_claim(self, name, namespace, pod, of, node):
        status = {}
        pod["status"]["resourceClaimStatuses"] = [{"name": of, "resourceClaimName": name}]
        if node:
            result = {"request": "r", "driver": DRIVER, "pool": node, "device": self.rng.choice(["d0", "d1"])}
            status = {"allocation": {"devices": {"results": [result]}},
                      "reservedFor": [{"resource": "pods", "name": pod["metadata"]["name"],
                                       "uid": pod["metadata"]["uid"]}]}  # fmt: skip
        request = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
        owner = {"ownerReferences": [reference(pod)]}
        self.documents.append(
            made("ResourceClaim", name, request, namespace=namespace, api="resource.k8s.io/v1", metadata=owner,
                 status=status)
        )  # fmt: skip

    # -- what does not -----------------------------------------------------------------------------------------------

    def _break(self):
        rng = self.rng
        touched = [kind for kind in LEFT_OUT if rng.random() < 0.3]
        for kind in touched:
            for document in self.named(kind):
                if rng.random() < LEFT_OUT[kind]:
                    self.documents.remove(document)
        ways = [
            self._ending, self._ended, self._ended, self._on_no_node, self._owned_by_nobody, self._nominated,
            self._same_ordinal, self._claimed_before, self._of_no_namespace, self._renamed_in_what_it_names,
            self._without_fields, self._spec_of_its_owner, self._twice,
        ]  # fmt: skip
        for way in rng.sample(ways, rng.randrange(1, 7)):
            pods = self.named("Pod")
            for pod in rng.sample(pods, min(len(pods), rng.randrange(1, 4))):
                way(pod)

        for document in self.documents:
            if (fields := FIELDS.get(document["kind"])) and rng.random() < 0.1:
                self._change(document, *rng.choice(fields))

    @staticmethod
    def _change(document, path, *values):
        """Give a field another value, or take it out where none is given."""
        *parts, last = path.split(".")
        for part in parts:
            document = document.setdefault(part, {})
        if values:
            document[last] = values[0]
        else:
            document.pop(last, None)

    def _ending(self, pod):
        pod["metadata"]["deletionTimestamp"] = f"2026-01-01T12:0{self.rng.randrange(0, 9)}:30Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = 30

    def _ended(self, pod):
        pod["status"] = {"phase": self.rng.choice(["Succeeded", "Failed", "Unknown", "", "Nonsense"])}

    def _on_no_node(self, pod):
        pod["spec"]["nodeName"] = self.rng.choice(["gone", "gone-2", "", " "])

    def _owned_by_nobody(self, pod):
        for each in pod["metadata"].get("ownerReferences", ()):
            field = self.rng.choice(["uid", "name", "kind", "controller"])
            each[field] = {"uid": "nobody", "name": "nobody", "kind": "Whatever", "controller": False}[field]

    def _nominated(self, pod):
        pod["status"]["nominatedNodeName"] = self.rng.choice(["gone", "", *self.node_names])

    def _same_ordinal(self, pod):
        parent, _, number = pod["metadata"]["name"].rpartition("-")
        other = self.rng.choice([f"0{number}", "0", "7", "99999999999999999999", "x", "-1"])
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), "apps.kubernetes.io/pod-index": other}
        if all(each["metadata"]["name"] != f"{parent}-{other}" for each in self.named("Pod")):
            pod["metadata"]["name"] = f"{parent}-{other}"

    def _claimed_before(self, pod):
        name = pod["metadata"]["name"]
        for claim in self.named("ResourceClaim"):
            if claim["metadata"]["name"].startswith(name):
                for each in claim["status"].get("reservedFor", ()):
                    each["uid"] = "of-a-pod-before"
                claim["metadata"]["ownerReferences"] = [{**reference(pod), "uid": "of-a-pod-before"}]
        if self.rng.random() < 0.5:
            self.documents = [each for each in self.documents if each is not pod]

    def _of_no_namespace(self, pod):
        pod["metadata"]["namespace"] = self.rng.choice(["nowhere", "", "t1"])

    def _renamed_in_what_it_names(self, pod):
        spec = pod["spec"]
        what = self.rng.randrange(5)
        if what == 0:
            spec["priorityClassName"] = "nosuch"
        elif what == 1:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "nosuch"}}]
        elif what == 2:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "nosuch"}]
        elif what == 3:
            spec["schedulingGroup"] = {"podGroupName": "nosuch"}
        else:
            spec["schedulerName"] = "nosuch"

    def _without_fields(self, pod):
        where, field = self.rng.choice(
            [("metadata", "uid"), ("metadata", "labels"), ("metadata", "creationTimestamp"), ("", "status"),
             ("spec", "containers"), ("spec", "volumes"), ("metadata", "ownerReferences")]
        )  # fmt: skip
        (pod[where] if where else pod).pop(field, None)
        pod.setdefault("status", {})

    def _spec_of_its_owner(self, pod):
        owners = [each for each in self.documents if each["kind"] in OWNERS]
        if owners:
            owner = self.rng.choice(owners)
            what = self.rng.randrange(4)
            if what == 0:
                owner["spec"].pop("template", None)
            elif what == 1:
                owner["spec"]["replicas"] = self.rng.choice([0, 9])
            elif what == 2:
                owner["spec"].pop("selector", None)
            else:
                owner["metadata"]["deletionTimestamp"] = NOW

    def _twice(self, pod):
        other = copy.deepcopy(pod)
        other["metadata"]["uid"] = f"another-{pod['metadata']['name']}"
        self.documents.append(other)


def reference(owner):
    """What the objects of an owner say of it."""
    metadata = owner["metadata"]
    named = {"kind": owner["kind"], "name": metadata["name"], "uid": metadata.get("uid", "")}
    return {"apiVersion": owner["apiVersion"], **named, "controller": True}
