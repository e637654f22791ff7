"""The revisions of a workload's template, kept as ControllerRevisions, which `kubectl rollout` shows and restores.

Used by the controllers of StatefulSets and DaemonSets. Upstream: pkg/controller/history.
"""

import msgspec

from berth_cluster.apimachinery.errors import as_text
from berth_cluster.apimachinery.meta import (
    Object,
    controller_reference,
    int_of,
    new_controller_reference,
    owner_references,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.workloads.rollout import same_template, template_hash
from berth_workloads.stateful_sets import REVISION_LABEL

KIND = "ControllerRevision"
HASH_LABELS = {"StatefulSet": "controller.kubernetes.io/hash", "DaemonSet": REVISION_LABEL}


class RevisionHistory:
    """Reads and writes ControllerRevisions."""

    __slots__ = ("_client", "_index")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._index = client.index

    def of(self, workload: Object) -> list[Object]:
        """All revisions of a workload, the oldest first."""
        found = self._index.controlled(uid_of(workload), KIND)
        return sorted(found, key=lambda one: (int_of(one, "revision"), str(one["metadata"]["name"])))

    def ensure(self, workload: Object) -> Object:
        """The revision of the present template: created, or an earlier one made the newest again."""
        known = self.of(workload)
        newest = int_of(known[-1], "revision") if known else 0
        template = workload["spec"]["template"]
        same = [one for one in known if same_template(template_of(one), template)]
        if not same:
            return self._create(workload, newest + 1)
        if int_of(same[-1], "revision") == newest:
            return same[-1]
        return self._client.update(KIND, {**same[-1], "revision": newest + 1})

    def truncate(self, workload: Object, in_use: set[str]) -> None:
        """Delete the oldest revisions that no pod has, beyond `revisionHistoryLimit`."""
        idle = [one for one in self.of(workload) if one["metadata"]["name"] not in in_use]
        surplus = len(idle) - int_of(workload["spec"], "revisionHistoryLimit", 10)
        for one in idle[: max(0, surplus)]:
            self._client.delete(KIND, one)

    def _create(self, workload: Object, number: int) -> Object:
        template = workload["spec"]["template"]
        collisions = int_of(workload.get("status") or {}, "collisionCount")
        digest = template_hash(template, collisions)
        name = f"{workload['metadata']['name']}-{digest}"
        namespace = workload["metadata"]["namespace"]
        known = self._index.get(KIND, f"{namespace}/{name}")
        if known is not None and controller_reference(known) is None:  # an earlier set's, of the same name
            owners = [*owner_references(known), new_controller_reference(workload)]
            return self._client.update(KIND, with_metadata(known, ownerReferences=owners))
        return self._client.create(KIND, new_revision(workload, name, digest, number))


def new_revision(workload: Object, name: str, digest: str, number: int = 1) -> Object:
    """A revision that holds the present template of a workload; `digest` is what a label of its pods says of it."""
    metadata, template = workload["metadata"], workload["spec"]["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABELS[workload["kind"]]: digest}
    owners = [new_controller_reference(workload)]
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    return {
        "metadata": {"name": name, "namespace": metadata["namespace"], "labels": labels, "ownerReferences": owners},
        "data": msgspec.json.decode(as_text(data)),  # names in order, as upstream's tools compare the bytes
        "revision": number,
    }


def template_of(revision: Object) -> Object:
    """The pod template that a revision holds."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}
