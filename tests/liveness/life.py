"""A cluster to which random things happen, and the controllers that it has: the volume, claim and pod controllers.

`Life(seed)` makes one without the flush; `happen()` lets one thing happen, `settle()` lets everything come to rest.
"""

import math
import random

from msgspec.structs import replace

from berth.api.codec import decode
from berth.core.assembly import build_core
from berth.core.builders import make_namespace, make_replica_set, make_service
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import ApiCall, EvictPod, Request
from berth.plugins.dra.claim_writes import plain
from berth.plugins.volumes.claims import SELECTED_NODE
from berth_cluster.apimachinery.patches import merge_patch
from packages.scheduler.tests.plugins.volumes import world as storage
from tests.liveness import objects as made

CONFLICT = "the object has been modified (Conflict, HTTP 409)"
NOT_FOUND = "not found (NotFound, HTTP 404)"
BROKEN = "etcdserver: request timed out (InternalError, HTTP 500)"


class Life:
    """One cluster and its random numbers."""

    def __init__(self, seed, *, memos=True, crowded=False, build=build_core):
        """With `crowded` there is little else than pods of all priorities that crowd one another out of two nodes."""
        self.rng = random.Random(seed)
        self.nodes = made.NODES[:2] if crowded else made.NODES
        self.gates = {name: is_on for name, is_on in made.GATES.items() if self.rng.random() < 0.2}
        if "NodeDeclaredFeatures" in self.gates:
            self.gates |= dict.fromkeys(made.BUILT_ON_DECLARED_FEATURES, False)
        # A flush by age would rescue a pod that waits in vain, and hide it.
        self.options = {"config": made.CROWDED if crowded else made.CONFIG, "gates": self.gates,
                        "plugins": {made.SlowPreBind.name: made.SlowPreBind}}  # fmt: skip
        self.cluster = VirtualCluster(memos=memos, unschedulable_age_s=math.inf, build=build, **self.options)
        self.cluster.answers_binds = self.cluster.answers_evictions = self.cluster.evicts_at_once = False
        self.number = self.refused_evictions = 0
        for namespace in made.NAMESPACES:
            self.put(make_namespace(namespace))
        self.acts = {
            self.put_node: 6, self.delete_node: 2, self.add_pod: 14, self.delete_pod: 5, self.change_pod: 5,
            self.answer: 10, self.control: 12, self.wait: 6, self.label_namespace: 1, self.put_storage: 10,
            self.delete_storage: 3, self.put_devices: 8, self.delete_devices: 3, self.put_workload: 2,
        }  # fmt: skip
        if crowded:
            rarely = (self.put_storage, self.delete_storage, self.put_devices, self.delete_devices, self.delete_node)
            self.acts |= {self.add_pod: 30, **dict.fromkeys(rarely, 1)}

    # What happens

    def happen(self):
        """Let one thing happen, and the scheduler take a step or none; return what it was."""
        act = self.rng.choices(list(self.acts), list(self.acts.values()))[0]
        act()
        if self.rng.random() < 0.7:
            self.cluster.step()
        return act.__name__

    def settle(self):
        """Nothing happens any more from outside; everybody who has something to do does it."""
        for _ in range(60):
            before = self.number
            while self.cluster.requests:
                self._answer(self.cluster.requests[0])
            while any(controller() for controller in self.controllers()):
                pass
            self.cluster.advance(700.0)
            if before == self.number and not self.cluster.requests:
                return
        raise AssertionError("the cluster does not come to rest")

    def put_node(self):
        node = made.random_node(self.rng, self.rng.choice(self.nodes)).build()
        known = self.known("Node", node.metadata.name)
        if known is not None and self.rng.random() < 0.7:  # only some of it changes
            part = self.rng.choice(("labels", "taints", "amounts", "features", "cordon"))
            spec, status, labels = known.spec, known.status, known.metadata.labels
            if part == "labels":
                labels = node.metadata.labels
            elif part == "taints":
                spec = replace(spec, taints=node.spec.taints)
            elif part == "amounts":
                status = replace(status, allocatable=node.status.allocatable)
            elif part == "features":
                status = replace(status, declared_features=node.status.declared_features)
            else:
                spec = replace(spec, unschedulable=not spec.unschedulable)
            node = replace(node, spec=spec, status=status, metadata=replace(node.metadata, labels=labels))
        self.put(node)

    def delete_node(self):
        self.delete_any("Node")

    def add_pod(self):
        pod = made.random_pod(self.rng, self.rng.choice(made.PODS)).uid(f"u{self.number}")
        if self.rng.random() < 0.1:
            pod.node(self.rng.choice(self.nodes))
        pod = pod.build()
        if self.known("Pod", pod.key) is None:
            self.put(pod)

    def delete_pod(self):
        key = self.any_of("Pod")
        if key is None:
            return
        pod = self.cluster.objects["Pod", key]
        if self.rng.random() < 0.5 and not pod.metadata.deletion_timestamp:
            self.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z")))
        elif self.rng.random() < 0.3 and pod.spec.node_name:
            self.put(replace(pod, status=replace(pod.status, phase="Succeeded")))
        else:
            self.delete("Pod", key)

    def change_pod(self):
        key = self.any_of("Pod")
        if key is None:
            return
        pod = self.cluster.objects["Pod", key]
        metadata, spec = pod.metadata, pod.spec
        what = self.rng.choice(("label", "toleration", "gates", "resize"))
        if what == "label":
            metadata = replace(metadata, labels={"app": self.rng.choice(made.APPS)})
        elif what == "toleration":
            more = made.make_pod().tolerate(self.rng.choice(("dedicated", "node.kubernetes.io/unschedulable")))
            spec = replace(spec, tolerations=(*spec.tolerations, *more.build().spec.tolerations))
        elif what == "gates":
            spec = replace(spec, scheduling_gates=())
        elif pod.spec.node_name:
            first, *others = spec.containers
            cpu = self.rng.choice(("50m", "600m"))
            resources = replace(first.resources, requests={**first.resources.requests, "cpu": cpu})
            spec = replace(spec, containers=(replace(first, resources=resources), *others))
        self.put(replace(pod, metadata=metadata, spec=spec))

    def wait(self):
        self.cluster.now += self.rng.choice((0.1, 1.0, 12.0, 40.0, 40.0))
        if self.rng.random() < 0.05:
            self.cluster.now += 700.0

    def label_namespace(self):
        self.put(make_namespace(self.rng.choice(made.NAMESPACES), {"env": self.rng.choice(("prod", "test"))}))

    def put_storage(self):
        rng = self.rng
        kind = rng.choice(("claim", "claim", "volume", "volume", "class", "csi_node", "driver", "capacity", "attached"))
        if kind == "claim":
            self.put_claim(rng.choice(made.CLAIMS))
        elif kind == "volume":
            volume = made.random_volume(rng, rng.choice(made.VOLUMES))
            if volume.spec.claim_ref is not None:
                claim = self.known("PersistentVolumeClaim", f"default/{volume.spec.claim_ref.name}")
                uid = claim.metadata.uid if claim is not None else "gone"
                volume = replace(volume, spec=replace(volume.spec, claim_ref=replace(volume.spec.claim_ref, uid=uid)))
            self.put(volume)
        elif kind == "class":
            self.put(made.random_class(rng, rng.choice(("wait", "static", "now"))))
        elif kind == "csi_node":
            self.put(made.random_csi_node(rng, rng.choice(self.nodes)))
        elif kind == "driver":
            self.put(made.random_driver(rng))
        elif kind == "capacity":
            self.put(made.random_capacity(rng, rng.choice("ab")))
        else:
            attachment = made.random_attachment(rng, f"att{rng.randrange(3)}")
            if self.known("VolumeAttachment", attachment.metadata.name) is not None:  # its spec cannot be changed
                self.delete("VolumeAttachment", attachment.metadata.name)
            self.put(attachment)

    def put_claim(self, name):
        claim = made.random_claim(self.rng, name)
        if self.known("PersistentVolumeClaim", f"default/{name}") is not None:
            self.delete("PersistentVolumeClaim", f"default/{name}")
        self.put(self.fresh(claim))

    def delete_storage(self):
        kinds = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver",
                 "CSIStorageCapacity", "VolumeAttachment")  # fmt: skip
        self.delete_any(self.rng.choice(kinds))

    def put_devices(self):
        rng = self.rng
        kind = rng.choice(("slice", "slice", "pool", "class", "claim", "claim"))
        if kind == "slice":
            self.put(made.random_slice(rng, rng.choice(self.nodes)))
        elif kind == "pool":
            self.put(made.random_part_of_a_pool(rng))
        elif kind == "class":
            self.put(made.random_device_class(rng, "gpu"))
        else:
            name = rng.choice(made.DEVICE_CLAIMS)
            if self.known("ResourceClaim", f"default/{name}") is None:
                self.put(self.fresh(made.random_device_claim(rng, name)))

    def delete_devices(self):
        self.delete_any(self.rng.choice(("ResourceSlice", "ResourceClaim", "DeviceClass")))

    def put_workload(self):
        rng = self.rng
        kind = rng.choice(("service", "set", "budget", "gone"))
        if kind == "service":
            self.put(make_service("s", {"app": rng.choice(made.APPS)}))
        elif kind == "set":
            self.put(make_replica_set("r", {"app": rng.choice(made.APPS)}))
        elif kind == "budget":
            self.put(made.random_budget(rng, "b"))
        else:
            self.delete_any(rng.choice(("Service", "ReplicaSet", "PodDisruptionBudget")))

    def answer(self):
        if self.cluster.requests:
            request = self.rng.choice(self.cluster.requests)
            self._answer(request, self.rng.choice(("", "", "", "", CONFLICT, BROKEN)))

    def control(self):
        """One controller does one thing."""
        controllers = self.controllers()
        self.rng.shuffle(controllers)
        any(controller() for controller in controllers)

    # The API server

    def known(self, kind, key):
        return self.cluster.objects.get((kind, key))

    def any_of(self, kind):
        keys = sorted(key for found, key in self.cluster.objects if found == kind)
        return self.rng.choice(keys) if keys else None

    def put(self, obj):
        """Store an object, with a new version."""
        obj = obj.build() if hasattr(obj, "build") else obj
        self.number += 1
        self.cluster.put(replace(obj, metadata=replace(obj.metadata, resource_version=str(self.number))))

    def fresh(self, obj):
        """The object with a uid that no other had."""
        return replace(obj, metadata=replace(obj.metadata, uid=f"{obj.metadata.name}-{self.number}"))

    def delete(self, kind, key):
        self.number += 1
        self.cluster.delete(kind, key)

    def delete_any(self, kind):
        key = self.any_of(kind)
        if key is not None:
            self.delete(kind, key)

    def _answer(self, request: Request, error=""):
        call = request.effect
        if isinstance(call, ApiCall):
            error, result = (error, None) if error else self._call(call)
            if request in self.cluster.requests:
                self.cluster.answer(request, error, result)
            return
        self.number += 1
        self.refused_evictions += bool(error) and isinstance(call, EvictPod)
        self.cluster.answer(request, error)

    def _call(self, call):
        """Carry out a call: the watch event comes before the answer."""
        key = f"{call.namespace}/{call.name}" if call.namespace else call.name
        if call.verb == "create":
            self.number += 1
            meta = call.body["metadata"]
            name = meta.get("name") or f"{meta['generateName']}{self.number}"
            metadata = {**plain_meta(meta), "name": name, "namespace": call.namespace, "uid": f"new-{self.number}"}
            self.put(decode(call.kind, {**call.body, "metadata": metadata}))
            return "", plain(self.known(call.kind, f"{call.namespace}/{name}"))
        known = self.known(call.kind, key)
        if known is None:
            return NOT_FOUND, None
        if call.verb == "delete":
            self.delete(call.kind, key)
            return "", None
        if call.verb == "patch":
            meta = call.body.get("metadata", {})
            stale = meta.get("resourceVersion", known.metadata.resource_version) != known.metadata.resource_version
            if stale or meta.get("uid", known.metadata.uid) != known.metadata.uid:
                return CONFLICT, None
            self.put(decode(call.kind, merge_patch(plain(known), dict(call.body))))
        return "", plain(self.known(call.kind, key))

    # The controllers: each does one thing and returns whether there was anything to do

    def controllers(self):
        return [self.finish_pods, self.collect_orphans, self.bind_volumes, self.provision, self.release_volumes,
                self.make_claims, self.release_claims, self.ready_devices]  # fmt: skip

    def every(self, kind):
        return [obj for (found, _), obj in sorted(self.cluster.objects.items()) if found == kind]

    def finish_pods(self):
        for pod in self.every("Pod"):
            if pod.metadata.deletion_timestamp or pod.status.phase == "Succeeded":
                self.delete("Pod", pod.key)
                return True
        return False

    def collect_orphans(self):
        """Pods of nodes that are gone."""
        for pod in self.every("Pod"):
            if pod.spec.node_name and self.known("Node", pod.spec.node_name) is None:
                self.delete("Pod", pod.key)
                return True
        return False

    def bind_volumes(self):
        """A volume that refers to a claim is bound to it; a claim that does not wait gets the first that fits."""
        for volume in self.every("PersistentVolume"):
            ref = volume.spec.claim_ref
            claim = self.known("PersistentVolumeClaim", f"{ref.namespace}/{ref.name}") if ref is not None else None
            if claim is not None and claim.metadata.uid == ref.uid and not claim.spec.volume_name:
                self._bind(claim, volume)
                return True
        for claim in self.every("PersistentVolumeClaim"):
            if claim.spec.volume_name or claim.spec.storage_class_name != "now":
                continue
            for volume in self.every("PersistentVolume"):
                if volume.spec.claim_ref is None and volume.spec.storage_class_name == "now":
                    reference = storage.decode(
                        "PersistentVolume",
                        {"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": claim.metadata.namespace,
                                               "name": claim.metadata.name, "uid": claim.metadata.uid}}},
                    ).spec.claim_ref  # fmt: skip
                    self.put(replace(volume, spec=replace(volume.spec, claim_ref=reference)))
                    return True
        return False

    def _bind(self, claim, volume):
        annotations = {**claim.metadata.annotations, storage.BOUND: "yes"}
        metadata = replace(claim.metadata, annotations=annotations)
        self.put(replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=volume.metadata.name)))

    def provision(self):
        """A claim with a chosen node gets a volume there, or (rarely) its choice is taken back."""
        for claim in self.every("PersistentVolumeClaim"):
            node_name = claim.metadata.annotations.get(SELECTED_NODE)
            if not node_name or claim.spec.volume_name:
                continue
            node = self.known("Node", node_name)
            if node is None or self.rng.random() < 0.2:
                annotations = {k: v for k, v in claim.metadata.annotations.items() if k != SELECTED_NODE}
                self.put(replace(claim, metadata=replace(claim.metadata, annotations=annotations)))
                return True
            zone = node.metadata.labels.get(made.ZONE)
            name = f"pvc-{claim.metadata.uid}"
            more = {"affinity": storage.on(made.ZONE, zone)} if zone else {}
            csi = {"driver": "d", "volumeHandle": name}
            volume = storage.volume(name, "5Gi", ref=claim.metadata.name, csi=csi, **more)
            ref = replace(volume.spec.claim_ref, uid=claim.metadata.uid, namespace=claim.metadata.namespace)
            self.put(replace(volume, spec=replace(volume.spec, claim_ref=ref)))
            return True
        return False

    def release_volumes(self):
        """A volume whose claim is gone goes, or can be had again."""
        for volume in self.every("PersistentVolume"):
            ref = volume.spec.claim_ref
            claim = self.known("PersistentVolumeClaim", f"{ref.namespace}/{ref.name}") if ref is not None else None
            if ref is None or (claim is not None and claim.metadata.uid == ref.uid):
                continue
            if volume.metadata.name.startswith("pvc-"):
                self.delete("PersistentVolume", volume.metadata.name)
            else:
                self.put(replace(volume, spec=replace(volume.spec, claim_ref=None)))
            return True
        return False

    def make_claims(self):
        """The claims of devices and volumes that pods have templates of."""
        for pod in self.every("Pod"):
            if pod.metadata.deletion_timestamp:
                continue
            if any(volume.name == "scratch" for volume in pod.spec.volumes):
                name = f"{pod.metadata.name}-scratch"
                if self.known("PersistentVolumeClaim", f"{pod.metadata.namespace}/{name}") is None:
                    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid,
                             "controller": True}  # fmt: skip
                    claim = storage.claim(name, namespace=pod.metadata.namespace, owners=[owner])
                    self.put(self.fresh(claim))
                    return True
            templates = [use for use in pod.spec.resource_claims if use.resource_claim_template_name]
            if templates and not pod.status.resource_claim_statuses:
                name = f"{pod.metadata.name}-made-{self.number}"
                claim = made.random_device_claim(self.rng, name, owner=pod.metadata.uid)
                claim = self.fresh(replace(claim, metadata=replace(claim.metadata, namespace=pod.metadata.namespace)))
                claim_first = self.rng.random() < 0.5  # watches of two kinds may overtake one another
                if claim_first:
                    self.put(claim)
                statuses = decode("Pod", {"status": {"resourceClaimStatuses": [
                    {"name": "made", "resourceClaimName": name}]}}).status.resource_claim_statuses  # fmt: skip
                latest = self.cluster.objects["Pod", pod.key]
                self.put(replace(latest, status=replace(latest.status, resource_claim_statuses=statuses)))
                if not claim_first:
                    self.put(claim)
                return True
        for claim in [*self.every("PersistentVolumeClaim"), *self.every("ResourceClaim")]:
            owners = [owner for owner in claim.metadata.owner_references if owner.kind == "Pod"]
            pods = {pod.metadata.uid for pod in self.every("Pod")}
            if owners and not any(owner.uid in pods for owner in owners):
                self.delete(type(claim).__name__, f"{claim.metadata.namespace}/{claim.metadata.name}")
                return True
        return False

    def release_claims(self):
        """Claims of devices forget the pods that are gone, and give the devices back when nobody is left."""
        pods = {pod.metadata.uid for pod in self.every("Pod")}
        for claim in self.every("ResourceClaim"):
            reserved = claim.status.reserved_for
            left = tuple(consumer for consumer in reserved if consumer.uid in pods)
            if left != reserved or (claim.status.allocation is not None and not left):
                allocation = claim.status.allocation if left else None
                devices = claim.status.devices if left else ()
                status = replace(claim.status, reserved_for=left, allocation=allocation, devices=devices)
                self.put(replace(claim, status=status))
                return True
        return False

    def ready_devices(self):
        """A driver says of a device that it is ready, or (rarely) broken."""
        for claim in self.every("ResourceClaim"):
            if claim.status.allocation is None or claim.status.devices:
                continue
            results = claim.status.allocation.devices.results
            if not any(result.binding_conditions for result in results):
                continue
            kind = "broken" if self.rng.random() < 0.2 else "ready"
            said = [{"driver": r.driver, "pool": r.pool, "device": r.device,
                     "conditions": [{"type": kind, "status": "True", "reason": "R", "message": "m"}]}
                    for r in results]  # fmt: skip
            devices = decode("ResourceClaim", {"status": {"devices": said}}).status.devices
            self.put(replace(claim, status=replace(claim.status, devices=devices)))
            return True
        return False


def plain_meta(meta):
    return {key: value for key, value in meta.items() if key != "generateName"}
