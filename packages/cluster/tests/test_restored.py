"""A cluster that begins with another's objects goes on where that one was."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from berth_cluster.apimachinery.meta import find_condition, labels_of
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import PODS, RESOURCE_TYPES, resource_of
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.controllers.workloads.daemonset import made_for
from berth_cluster.embedded import ClusterSettings, EmbeddedCluster, create_nodes, make_controllers
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.restored import Restored, UnrestorableError, restore
from berth_cluster.storage.namespace_contents import NamespaceContents
from berth_cluster.storage.store import Store
from berth_workbench.snapshot.documents import read_documents
from berth_workbench.snapshot.kept_fields import TAKEN, shape_of, trimmed
from tests.fuzz.mutation import hostile
from tests.paths import ROOT

START = datetime(2030, 1, 1, tzinfo=UTC)
LATER_S = START.timestamp() + 3600


class Cluster:
    """A store with its controllers, in virtual time; what is pending is bound to its node, or the first one."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.store = Store(clock=lambda: START, system_objects=not objects, service_accounts=True)
        NamespaceContents(self.store)
        self.restored: Restored | None = restore(self.store, copy.deepcopy(objects)) if objects else None
        self.manager = ControllerManager(self.store)
        elsewhere = self.restored.missing_owners if self.restored else ()
        self.manager.add(make_controllers(self.manager.client, ClusterSettings(heartbeat_s=0), elsewhere))
        self.settle()

    def settle(self, now_s: float = START.timestamp()) -> None:
        for _ in range(4):
            self.manager.run_until_quiet(now_s)
            for pod in self.store.objects(PODS):
                if not pod["spec"].get("nodeName"):
                    target = {"target": {"name": made_for(pod) or "node-0"}}
                    self.store.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], target)
        self.manager.run_until_quiet(now_s)

    def create(self, kind: str, name: str, **fields: Any) -> None:
        self.store.create(resource_of(kind), "default", {"metadata": {"name": name}, **fields})

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.store.objects(resource_of(kind))}

    def kept(self) -> list[dict[str, Any]]:
        """What a snapshot holds of this cluster."""
        kinds = [each for each in RESOURCE_TYPES if each.kind in TAKEN]
        found = [each for kind in kinds for each in self.store.objects(kind)]
        return [trimmed(msgspec.to_builtins(each), shape_of(each["kind"])) for each in found]


TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i:1", "args": ["a"]}]},
}
SELECTOR = {"matchLabels": {"app": "x"}}


def busy_cluster() -> Cluster:
    found = Cluster()
    create_nodes(found.store, NodeTemplate(), 2)
    found.create("Deployment", "web", spec={"replicas": 2, "selector": SELECTOR, "template": TEMPLATE})
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    template = {**TEMPLATE, "metadata": {"labels": {"app": "db"}}}
    spec = {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    found.create("StatefulSet", "db", spec={**spec, "volumeClaimTemplates": [claim]})
    pod = {**TEMPLATE["spec"], "restartPolicy": "Never"}
    found.create("Job", "batch", spec={"template": {"spec": pod}})
    found.settle()
    return found


def state(found: Cluster) -> dict[str, Any]:
    return {
        f"{kind} {name}": (
            each["metadata"]["uid"], (each.get("spec") or {}).get("nodeName"), (each.get("status") or {}).get("phase")
        )
        for kind in ("Pod", "PersistentVolumeClaim", "PersistentVolume", "ReplicaSet", "Node", "Job")
        for name, each in found.of(kind).items()
    }  # fmt: skip


def test_everything_stays_where_it_is() -> None:
    first = busy_cluster()
    before = state(first)
    assert sum(key.startswith("Pod ") for key in before) == 5
    second = Cluster(*first.kept())
    assert state(second) == before
    second.settle(LATER_S)
    assert state(second) == before
    for pod in second.of("Pod").values():
        assert all(each["ready"] for each in pod["status"]["containerStatuses"])
    assert second.of("Deployment")["web"]["status"]["readyReplicas"] == 2
    assert second.of("StatefulSet")["db"]["status"]["readyReplicas"] == 2


def test_controllers_go_on() -> None:
    found = Cluster(*busy_cluster().kept())
    before = set(found.of("Pod"))
    for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
        obj = found.of(kind)[name]
        found.store.update(resource_of(kind), "default", name, {**obj, "spec": {**obj["spec"], "replicas": 3}})
    found.settle()
    made = {name: found.of("Pod")[name] for name in set(found.of("Pod")) - before}
    assert sorted(name.rpartition("-")[0].partition("-")[0] for name in made) == ["db", "web"]
    assert {pod["status"]["phase"] for pod in made.values()} == {"Running"}
    assert (
        labels_of(made["db-2"])["controller-revision-hash"]
        == labels_of(found.of("Pod")["db-0"])["controller-revision-hash"]
    )


def test_daemons_stay_and_accounts_that_snapshots_leave_out_are_there() -> None:
    before = Cluster()
    create_nodes(before.store, NodeTemplate(), 2)
    before.create("ServiceAccount", "agent")
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {**TEMPLATE["spec"], "serviceAccountName": "agent"}}
    before.create("DaemonSet", "agent", spec={"selector": {"matchLabels": {"app": "a"}}, "template": template})
    before.settle()
    objects = [each for kind in ("Node", "DaemonSet", "Pod") for each in before.store.objects(resource_of(kind))]
    after = Cluster(*objects)
    assert set(after.of("Pod")) == set(before.of("Pod"))
    create_nodes(after.store, NodeTemplate(), 1, first=2)
    after.settle()
    assert len(set(after.of("Pod")) - set(before.of("Pod"))) == 1
    assert len({labels_of(pod)["controller-revision-hash"] for pod in after.of("Pod").values()}) == 1


def test_pods_without_their_owners_are_not_collected_and_others_still_are() -> None:
    kept = [each for each in busy_cluster().kept() if each["kind"] in ("Node", "Pod")]
    found = Cluster(*kept)
    found.settle(LATER_S)
    assert len(found.of("Pod")) == 5
    assert found.restored is not None and len(found.restored.missing_owners) == 3
    found.create("Deployment", "late", spec={"selector": {"matchLabels": {"a": "b"}}, "template": {
        **TEMPLATE, "metadata": {"labels": {"a": "b"}}}})  # fmt: skip
    found.settle()
    assert len(found.of("Pod")) == 6
    found.store.delete(resource_of("Deployment"), "default", "late")
    found.settle(LATER_S)
    assert len(found.of("Pod")) == 5


def test_pending_pods_are_pending_and_what_is_lacking_is_told() -> None:
    pending = {"kind": "Pod", "metadata": {"name": "p", "namespace": "elsewhere"}, "spec": TEMPLATE["spec"]}
    lost = {
        **pending,
        "metadata": {"name": "q"},
        "spec": {**TEMPLATE["spec"], "nodeName": "gone", "priorityClassName": "gone"},
    }
    room = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    idle = {"selector": SELECTOR, "replicas": 0}
    objects = [
        {"kind": "Node", "metadata": {"name": "node-0"}, "status": {"capacity": room}},
        pending, lost,
        {"kind": "Sheep", "apiVersion": "farm/v1", "metadata": {"name": "s"}},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "r"}, "spec": {}},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "t"}, "spec": idle},
    ]  # fmt: skip
    store = Store(clock=lambda: START, system_objects=False)
    restored = restore(store, objects)
    assert (restored.unknown, restored.unusable, restored.missing_nodes) == (
        ("Sheep",),
        ("ReplicaSet r",),
        {"gone"},
    )
    assert store.get(PODS, "elsewhere", "p")["status"]["phase"] == "Pending"
    assert store.get(PODS, "default", "q")["spec"]["nodeName"] == "gone"
    assert {"default", "kube-system", "elsewhere"} <= {
        each["metadata"]["name"] for each in store.objects(resource_of("Namespace"))
    }
    found = Cluster(*objects)
    assert found.of("Pod")["p"]["status"]["phase"] == "Running"
    assert found.of("ReplicaSet")["t"]["status"]["replicas"] == 0


def test_definitions_come_first_and_custom_objects_with_them() -> None:
    """Whatever their order, and with the uids that others refer to; a kind that nothing declares is left out."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "flocks.farm.example"},
        "spec": {
            "group": "farm.example",
            "scope": "Namespaced",
            "names": {"plural": "flocks", "kind": "Flock"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
        "status": {"conditions": [{"type": "Established", "status": "False", "reason": "Stale"}]},
    }
    flock = {"apiVersion": "farm.example/v1", "kind": "Flock", "metadata": {"name": "f", "uid": "u-1"}, "spec": [1]}
    sheep = {"apiVersion": "farm.example/v1", "kind": "Sheep", "metadata": {"name": "s"}}
    store = Store(clock=lambda: START, system_objects=False)
    restored = restore(store, [flock, sheep, definition])
    assert (restored.counts, restored.unknown) == ({"Flock": 1, "CustomResourceDefinition": 1}, ("Sheep",))
    (kind,) = store.custom.served
    found = store.get(kind, "default", "f")
    assert (found["metadata"]["uid"], found["spec"], found["apiVersion"]) == ("u-1", [1], "farm.example/v1")
    bad = {**definition, "spec": {**definition["spec"], "versions": []}}
    with pytest.raises(UnrestorableError, match="must have exactly one version"):
        restore(Store(clock=lambda: START, system_objects=False), [flock, bad])


async def test_more_nodes_get_names_that_are_free(tmp_path: Path) -> None:
    """Neither that of a node, nor that of a node which is gone while a pod says that it runs there."""
    objects = [
        *({"kind": "Node", "metadata": {"name": name}} for name in ("node-0", "node-2", "worker")),
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "node-3", "containers": []}},
    ]
    cluster = EmbeddedCluster(ClusterSettings(nodes=2), tmp_path, objects=objects)
    await cluster.start()
    try:
        names = {each["metadata"]["name"] for each in cluster.store.objects(resource_of("Node"))}
    finally:
        await cluster.stop()
    assert names == {"node-0", "node-2", "worker"} | {"node-1", "node-4"}


@pytest.mark.parametrize("given", [{"kind": "Pod"}, {"kind": "Pod", "metadata": None, "spec": None}])
def test_objects_with_next_to_nothing_in_them_do_no_harm(given: dict[str, Any]) -> None:
    assert restore(Store(clock=lambda: START, system_objects=False), [given]).counts == {"Pod": 1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "Pod", "metadata": {"name": "p", "namespace": "x"}, "spec": 5}, "Pod x/p: "),
        ({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": "many"}}, "spec.replicas"),
        ({"kind": "Pod", "metadata": []}, "Pod : "),
        ({"kind": "Pod", "metadata": {"name": "Up"}}, "metadata.name"),
        ({"kind": "Pod", "metadata": {"name": "p", "namespace": "A_b"}}, "metadata.namespace"),
    ],
)
def test_an_object_that_cannot_be_restored_is_told(given: dict[str, Any], said: str) -> None:
    fine = {"kind": "Node", "metadata": {"name": "n"}}
    with pytest.raises(UnrestorableError) as caught:
        restore(Store(clock=lambda: START, system_objects=False), [fine, given])
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.number == 1


def test_hostile_objects_are_restored_or_refused() -> None:
    rng, known = Random(5), busy_cluster().kept()
    refused = []
    for _ in range(150):
        objects = copy.deepcopy(known)
        number = rng.randrange(len(objects))
        try:
            found = msgspec.json.decode(hostile(rng, msgspec.json.encode(objects[number])))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("kind"), str):
            try:
                restore(Store(clock=lambda: START, system_objects=False), [*objects[:number], found])
            except UnrestorableError as error:
                refused.append(str(error))
    assert refused and max(map(len, refused)) < 2000


def shop() -> list[dict[str, Any]]:
    return [document.manifest for document in read_documents([ROOT / "examples" / "shop.yaml"])]


def pods_placed(found: Cluster) -> dict[str, tuple[str, str]]:
    pods = {name: pod for name, pod in found.of("Pod").items() if name != "finetune-0"}  # which is pending
    return {name: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for name, pod in pods.items()}


def test_a_file_that_says_only_what_matters_becomes_a_cluster_that_works() -> None:
    """README's own: nodes without conditions, workloads without selectors or templates, containers without images."""
    found = Cluster(*shop())
    restored = found.restored
    assert restored is not None and not (restored.unusable or restored.invalid or restored.unknown)
    before = pods_placed(found)
    found.settle(LATER_S)
    assert pods_placed(found) == before and len(before) == 14
    for node in found.of("Node").values():
        assert find_condition(node, "Ready")["status"] == "True"
        assert node["status"]["capacity"] == node["status"]["allocatable"]
    web, orders = found.of("Deployment")["web"], found.of("StatefulSet")["orders"]
    assert web["status"]["readyReplicas"] == web["status"]["updatedReplicas"] == 6
    assert (orders["status"]["readyReplicas"], orders["status"]["updatedReplicas"]) == (1, 1)
    assert set(found.of("ReplicaSet")) == {"web-7c9f", "cart-7c9f"}


def test_workloads_that_were_completed_make_further_pods() -> None:
    found = Cluster(*shop())
    before = set(found.of("Pod"))
    for kind, name, replicas in (("Deployment", "web", 7), ("StatefulSet", "orders", 2), ("StatefulSet", "train", 4)):
        patch = {"spec": {"replicas": replicas}}
        namespace = "ml" if name == "train" else "shop"
        found.store.patch(resource_of(kind), namespace, name, patch, MERGE_PATCH)
    found.settle()
    made = {name: found.of("Pod")[name] for name in set(found.of("Pod")) - before}
    assert sorted(name.rpartition("-")[0] for name in made) == ["orders", "train", "web-7c9f"]
    assert made["orders-1"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-orders-1"
    assert made["train-3"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "2"


@pytest.mark.parametrize("given", [shop, lambda: busy_cluster().kept()], ids=["shop", "snapshot"])
def test_whatever_was_restored_can_be_changed(given: Callable[[], list[dict[str, Any]]]) -> None:
    """As `kubectl label` and `annotate` do it: nothing else changes, so no update may find that something has."""
    found = Cluster(*given())
    patch = {"metadata": {"labels": {"touched": "yes"}, "annotations": {"touched": "yes"}}}
    for kind in RESOURCE_TYPES:
        for obj in found.store.objects(kind):
            meta = obj["metadata"]
            new = found.store.patch(kind, meta.get("namespace", ""), meta["name"], patch, MERGE_PATCH)
            assert new["metadata"]["labels"]["touched"] == "yes"
            assert new.get("spec") == obj.get("spec"), f"{kind.kind} {meta['name']}"


def test_what_an_api_server_would_refuse_is_kept_and_told() -> None:
    odd = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"restartPolicy": "Sometimes", **TEMPLATE["spec"]}}
    restored = restore(Store(clock=lambda: START, system_objects=False), [odd])
    (said,) = restored.invalid
    assert said.startswith('Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Sometimes"')
