"""A whole cluster in virtual time: store, controllers, hollow nodes, and a scheduler that takes turns."""

import itertools
import random
from datetime import UTC, datetime

from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.workloads.daemonset import made_for
from berth_cluster.embedded import ClusterSettings, create_nodes, make_controllers
from berth_cluster.hollow.drivers import create_driver_objects
from berth_cluster.hollow.kubelet import KubeletSettings
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.storage.namespace_contents import NamespaceContents
from berth_cluster.storage.store import Store

START_S = 1_800_000_000.0
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale"}


class World:
    """What the tests act on; `settle` lets everything happen that is due within a while."""

    def __init__(self, nodes=3, template=None, kubelet=None, binds=True, drivers=False, devices=0):
        self.now_s = START_S
        uids = itertools.count(1)
        self.store = Store(
            lambda: datetime.fromtimestamp(self.now_s, UTC),
            uid_factory=lambda: f"uid-{next(uids)}",
            rng=random.Random(1),
            service_accounts=True,
        )
        NamespaceContents(self.store)
        settings = ClusterSettings(kubelet=kubelet or KubeletSettings(), heartbeat_s=0, devices_per_node=devices)
        self.manager = ControllerManager(self.store)
        self.manager.add(make_controllers(self.manager.client, settings))
        if drivers or devices:
            create_driver_objects(self.store, devices)
        self.node_names = [f"node-{index}" for index in range(nodes)]
        create_nodes(self.store, template or NodeTemplate(), nodes)
        self.binds = binds
        self._turn = itertools.count()
        self.run()

    # --- acting --------------------------------------------------------------------------------------------------

    def create(self, obj):
        return self.store.create(resource_of(obj["kind"]), obj["metadata"].get("namespace", ""), obj)

    def delete(self, kind, name, namespace="default", **options):
        self.store.delete(resource_of(kind), namespace, name, options)

    def patch(self, kind, name, patch, namespace="default", subresource=""):
        content_type = "application/merge-patch+json"
        return self.store.patch(resource_of(kind), namespace, name, patch, content_type, subresource=subresource)

    def scale(self, kind, name, replicas):
        self.patch(kind, name, {"spec": {"replicas": replicas}})

    def bind(self, pod, node):
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.store.bind(namespace, name, body)

    def run(self, seconds=0.0):
        """Everything that is due at once, or within some seconds of virtual time."""
        until_s = self.now_s + seconds
        while True:
            busy = self.manager.run_until_quiet(self.now_s) + self._bind_pending()
            if busy:
                continue
            deadline_s = self.manager.next_deadline()
            if deadline_s is None or deadline_s > until_s:
                self.now_s = until_s
                return
            self.now_s = max(self.now_s, deadline_s)

    def _bind_pending(self):
        if not self.binds or not self.node_names:
            return 0
        pending = [pod for pod in self.pods() if not pod["spec"].get("nodeName") and not _going(pod)]
        for pod in pending:
            self.bind(pod, made_for(pod) or self.node_names[next(self._turn) % len(self.node_names)])
        return len(pending)

    # --- looking -------------------------------------------------------------------------------------------------

    def get(self, kind, name, namespace="default"):
        return self.store.find(resource_of(kind), namespace, name)

    def all(self, kind, namespace=""):
        return self.store.list(resource_of(kind), namespace)[0]

    def pods(self, label_selector=""):
        return self.store.list(resource_of("Pod"), "", label_selector)[0]

    def status(self, kind, name):
        return self.get(kind, name)["status"]

    def events(self, kind, reason):
        return [
            event["message"]
            for event in self.all("Event")
            if event["involvedObject"]["kind"] == kind and event["reason"] == reason
        ]


def _going(pod):
    return "deletionTimestamp" in pod["metadata"]


def condition(obj, condition_type):
    """(status, reason, message) of a condition, or None."""
    for one in obj["status"].get("conditions", []):
        if one["type"] == condition_type:
            return one["status"], one.get("reason"), one.get("message")
    return None


def meta(name, **fields):
    return {"name": name, "namespace": "default", **fields}


def pod_template(labels, image="nginx", **spec):
    containers = [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}


def pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name), "spec": pod_template({}, **spec)["spec"]}


def replica_set(name, replicas, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta(name),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template({"app": name}),
            **spec,
        },
    }


def deployment(name, replicas, **spec):
    return {**replica_set(name, replicas, **spec), "kind": "Deployment"}


def daemon_set(name, **spec):
    made = replica_set(name, 0, **spec)
    del made["spec"]["replicas"]
    return {**made, "kind": "DaemonSet"}


def stateful_set(name, replicas, claims=(), **spec):
    templates = [claim(one, storageClassName=None) for one in claims]
    for template in templates:
        template["metadata"].pop("namespace")
        template["spec"].pop("storageClassName")
    more = {"volumeClaimTemplates": templates} if templates else {}
    return {**replica_set(name, replicas, serviceName=name, **more, **spec), "kind": "StatefulSet"}


def claim(name, size="1Gi", **spec):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(name), "spec": spec}


def volume(name, size="1Gi", **spec):
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/data"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def storage_class(name, provisioner="disks.example.com", mode="Immediate", **fields):
    metadata = {"name": name, "annotations": fields.pop("annotations", {})}
    fields = {"provisioner": provisioner, "volumeBindingMode": mode, **fields}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, **fields}


def job(name, annotations=None, **spec):
    template = pod_template({}, restartPolicy=spec.pop("restart_policy", "Never"))
    template["metadata"]["annotations"] = annotations or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name),
        "spec": {"completions": 1, "parallelism": 1, "template": template, **spec},
    }
