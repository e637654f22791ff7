"""Clusters as documents, and changes applied to them as kubectl would apply them: from their patches alone."""

import copy
import json

from berth.api.codec import decode
from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import NodeBuilder, PodBuilder
from berth_cluster.apimachinery.patches import JSON_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.admission import completed
from berth_workbench.simulation.cluster import SimulatedCluster

MEDIA_TYPES = {"strategic": STRATEGIC_MERGE_PATCH, "json": JSON_PATCH}


class World:
    """A cluster's documents, and the pod that asks for help."""

    def __init__(self, pod, *objects, gates=None, plugins=()):
        self.pod = pod.document if isinstance(pod, PodBuilder) else pod
        self.documents = [each.document if isinstance(each, PodBuilder | NodeBuilder) else each for each in objects]
        self.gates = gates or {}

    def cluster(self):
        """Return the cluster in memory, with the pod among its pending ones."""
        config = load_config(
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
            "a test's config",
            feature_gates(self.gates),
        )
        documents = [*self.documents, self.pod]
        return SimulatedCluster([decode(each["kind"], copy.deepcopy(each)) for each in documents], config=config)

    def help(self, cluster=None, **options):
        """Return what would help the pod."""
        cluster = cluster or self.cluster()
        return what_would_help(cluster, decode("Pod", copy.deepcopy(self.pod)), **options)

    def after(self, change):
        """Return the world with a change made, by its patch and nothing else."""
        found = copy.deepcopy(self)
        found.patch(change.patch_type, change.patch, change.target)
        for part in change.with_:
            found.patch(part.patch_type, part.patch, part.target)
        return found

    def patch(self, patch_type, patch, target):
        """Do what a patch says."""
        patch = json.loads(json.dumps(patch))  # as it comes out of `-o json`
        if patch_type == "delete":
            self._delete(set(patch["pods"]))
        elif patch_type == "create":
            self.documents += [{**completed(each["kind"], each), "kind": each["kind"]} for each in patch["manifests"]]
        else:
            document = self.named(target)
            changed = apply_patch(copy.deepcopy(document), patch, MEDIA_TYPES[patch_type])
            document.clear()
            document.update(changed)

    def named(self, target):
        """Return a document by `Kind/name` or `Kind/namespace/name`."""
        for document in (self.pod, *self.documents):
            metadata = document["metadata"]
            parts = [document["kind"], metadata.get("namespace"), metadata["name"]]
            if "/".join(part for part in parts if part) == target:
                return document
        raise AssertionError(f"no {target}")

    def _delete(self, keys):
        def is_gone(document):
            metadata = document["metadata"]
            return document["kind"] == "Pod" and f"{metadata.get('namespace')}/{metadata['name']}" in keys

        gone = {each["metadata"]["uid"] for each in self.documents if is_gone(each)}
        assert len(gone) == len(keys), "a pod is to go that is not there"
        self.documents = [each for each in self.documents if not is_gone(each)]
        for document in self.documents:  # the claim controller gives devices back that nobody uses any more
            users = (document.get("status") or {}).get("reservedFor")
            if document["kind"] == "ResourceClaim" and users and all(user["uid"] in gone for user in users):
                document["status"] = {}

    @property
    def key(self):
        """The pod's name."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def placed(self):
        """Return the node that the scheduler gives the pod, or the empty string."""
        cluster = self.cluster()
        cluster.settle()
        return cluster.placements[self.key]
