"""Patches by somebody who means harm: work in proportion to patch and object, and refusals instead of accidents."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import (
    JSON_PATCH,
    MAX_MOVED_ELEMENTS,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
)
from berth_cluster.apimachinery.reason import MAX_DEPTH, MAX_VALUES, refuse_unreasonable
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.apimachinery.schema import message
from berth_cluster.apimachinery.strategic_merge import strategic_merge
from packages.cluster.tests.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    config_map,
    deployment,
    make_store,
    pod,
)
from tests.effort import examples

CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]
MANY = 3000


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other):
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counted(prefix):
    Counted.comparisons = 0
    return [Counted(f"{prefix}{number}") for number in range(MANY)]


SPEC, META = message("core.v1.PodSpec"), message("meta.v1.ObjectMeta")


class TestLinearMerges:
    """The number of comparisons grows with the number of entries, not with its square."""

    def test_lists_of_objects(self):
        target = {"containers": [{"name": name} for name in counted("c")]}
        patch = {"containers": [{"name": str(name), "image": "i"} for name in counted("c")]}
        merged = strategic_merge(target, patch, SPEC)
        assert all(one["image"] == "i" for one in merged["containers"]) and len(merged["containers"]) == MANY
        assert Counted.comparisons < 10 * MANY

    def test_deletions(self):
        target = {"containers": [{"name": name} for name in counted("c")]}
        patch = {"containers": [{"name": str(name), "$patch": "delete"} for name in counted("c")]}
        assert strategic_merge(target, patch, SPEC) == {"containers": []}
        assert Counted.comparisons < 10 * MANY

    def test_sets(self):
        target = {"finalizers": counted("f")}
        merged = strategic_merge(target, {"finalizers": [*counted("f"), "new"]}, META)
        assert len(merged["finalizers"]) == MANY + 1
        assert Counted.comparisons < 10 * MANY

    def test_what_is_dropped_from_sets(self):
        patch = {"$deleteFromPrimitiveList/finalizers": counted("f")}
        assert strategic_merge({"finalizers": counted("f")}, patch, META) == {"finalizers": []}
        assert Counted.comparisons < 10 * MANY

    def test_retained_keys(self):
        target = dict.fromkeys(counted("k"), 1)
        assert strategic_merge(target, {"$retainKeys": counted("k")}, SPEC).keys() == target.keys()
        assert Counted.comparisons < 10 * MANY

    def test_orders(self):
        names = counted("c")
        patch = {"$setElementOrder/containers": [{"name": name} for name in reversed(names)]}
        merged = strategic_merge({"containers": [{"name": name} for name in names]}, patch, SPEC)
        assert [one["name"] for one in merged["containers"]] == list(reversed(names))
        assert Counted.comparisons < 20 * MANY

    def test_tolerations_of_a_pod(self):
        store = make_store()
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(MANY)]
        made = store.create(PODS, "default", pod(tolerations=tolerations))
        more = [*made["spec"]["tolerations"], {"key": "one-more", "operator": "Exists"}]
        patch = {"spec": {"tolerations": more}}
        assert store.patch(PODS, "default", "web", patch, MERGE_PATCH)["spec"]["tolerations"] == more


def test_merges_are_what_they_were():
    spec = {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}
    patch = {"containers": [{"name": "c"}, {"name": "a", "$patch": "delete"}, {"name": "a", "image": "2"}]}
    merged = strategic_merge(spec, patch, SPEC)
    assert merged == {"containers": [{"name": "c"}, {"name": "a", "image": "2"}, {"name": "b"}]}
    meta = strategic_merge({"finalizers": ["x", "y"]}, {"finalizers": ["y", "z"]}, META)
    assert meta == {"finalizers": ["x", "y", "z"]}


class TestJsonPatches:
    def test_insertions_into_the_front_are_bounded(self):
        target = {"list": [0] * 90_000}
        operations = [{"op": "add", "path": "/list/0", "value": 1}] * 5000
        with pytest.raises(StoreError, match=str(MAX_MOVED_ELEMENTS)) as caught:
            apply_patch(target, operations, JSON_PATCH)
        assert caught.value.status_code == 413
        assert len(target["list"]) < 90_000 + 200

    def test_insertions_at_the_end_are_not(self):
        operations = [{"op": "add", "path": "/list/-", "value": 1}] * 5000
        assert len(apply_patch({"list": []}, operations, JSON_PATCH)["list"]) == 5000

    @pytest.mark.parametrize("op", ["copy", "add"])
    def test_depth_is_bounded(self, op):
        operations = [{"op": "add", "path": "/a", "value": {}}]
        for number in range(1, 1500):
            step = {"op": "add", "path": "/a" + "/a" * number, "value": {}}
            operations.append(step)
        if op == "copy":
            operations.append({"op": "copy", "from": "/a", "path": "/a" + "/a" * 1499 + "/b"})
        with pytest.raises(StoreError, match="deep") as caught:
            apply_patch({}, operations, JSON_PATCH)
        assert caught.value.status_code == 400

    def test_a_value_cannot_be_moved_into_itself(self):
        with pytest.raises(StoreError, match="error in our request"):
            apply_patch({"a": {"b": {}}}, [{"op": "move", "from": "/a", "path": "/a/b/c"}], JSON_PATCH)

    def test_refusals_do_not_repeat_what_is_long(self):
        for operation in (
            {"op": "test", "path": "/" + "x" * 100_000, "value": 1},
            {"op": "add", "path": "x" * 100_000, "value": 1},
            {"op": "x" * 100_000, "path": "/a", "value": 1},
            {"op": "add", "path": "/list/" + "x" * 100_000, "value": 1},
        ):
            with pytest.raises(StoreError) as caught:
                apply_patch({"a": 1, "list": []}, [operation], JSON_PATCH)
            assert caught.value.status_code == 422 and len(caught.value.message) < 1000


class TestReason:
    def test_what_is_just_reasonable(self):
        nested = value = []
        for _ in range(MAX_DEPTH - 2):
            nested.append([])
            nested = nested[0]
        refuse_unreasonable(value, "it")
        refuse_unreasonable([0] * MAX_VALUES, "it")
        refuse_unreasonable(dict.fromkeys(range(MAX_VALUES // 2)), "it")

    def test_what_is_not(self):
        value = []
        for _ in range(MAX_DEPTH):
            value = [value]
        with pytest.raises(StoreError, match="deep"):
            refuse_unreasonable(value, "it")
        for many in ([0] * (MAX_VALUES + 1), dict.fromkeys(range(MAX_VALUES)), [[0] * 400] * 400):
            with pytest.raises(StoreError, match="too many values"):
                refuse_unreasonable(many, "it")


# --- any patch against any object ------------------------------------------------------------------------------------

FIELDS = [
    "metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "spec", "status",
    "containers", "initContainers", "image", "env", "ports", "containerPort", "hostPort", "protocol", "resources",
    "limits", "requests", "cpu", "tolerations", "key", "operator", "affinity", "topologySpreadConstraints", "data",
    "topologyKey", "maxSkew", "volumes", "conditions", "type", "schedulingGates", "nodeSelector", "nodeName", "taints",
    "effect", "capacity", "allocatable", "replicas", "selector", "matchLabels", "template", "strategy", "devices",
    "exactly", "firstAvailable", "selectors", "cel", "expression", "config", "opaque", "parameters", "resourceVersion",
    "deletionTimestamp", "generation", "creationTimestamp", "kind", "apiVersion", "$patch", "$retainKeys",
    "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "0", "-", "a",
]  # fmt: skip
SCALARS = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-(2**70), 2**70),
    some.floats(allow_nan=False, allow_infinity=False),
    some.sampled_from(["", "a", "web", "merge", "delete", "replace", "1", "1e99999", "100m", "-5", "Exists", "\u0000"]),
    some.text(max_size=5),
)
VALUES = some.recursive(
    SCALARS,
    lambda inner: some.one_of(
        some.lists(inner, max_size=4), some.dictionaries(some.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=25,
)
POINTERS = some.one_of(
    some.lists(some.sampled_from(FIELDS), max_size=6).map(lambda parts: "".join("/" + part for part in parts)),
    some.sampled_from(["", "/", "//", "a", "/spec/containers/0", "/spec/containers/-", "/metadata/labels/a~1b"]),
)
OPERATIONS = some.lists(
    some.one_of(
        VALUES,
        some.fixed_dictionaries(
            {"op": some.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
            optional={"value": VALUES, "from": POINTERS},
        ),
    ),
    max_size=6,
)
SUBRESOURCES = {PODS: ["", "status", "resize"], DEPLOYMENTS: ["", "status", "scale"], NODES: ["", "status"]}


def made(store):
    store.create(PODS, "default", pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    store.create(NODES, "", {"metadata": {"name": "web"}, "status": {"capacity": {"cpu": "4"}}})
    store.create(CONFIG_MAPS, "default", config_map("web", a="b"))
    store.create(DEPLOYMENTS, "default", deployment())
    opaque = {"opaque": {"driver": "d", "parameters": {"containers": [1, "a", {"name": []}], "finalizers": 5}}}
    requests = [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]
    spec = {"devices": {"requests": requests, "config": [opaque]}}
    store.create(CLAIMS, "default", {"metadata": {"name": "web"}, "spec": spec})
    return store


def opaque_patch(value):
    return {"spec": {"devices": {"config": value}}}


@pytest.mark.parametrize("kind", [PODS, NODES, CONFIG_MAPS, DEPLOYMENTS, CLAIMS], ids=lambda kind: kind.plural)
@pytest.mark.parametrize(
    ("content_type", "patches"),
    [(JSON_PATCH, OPERATIONS), (MERGE_PATCH, VALUES), (STRATEGIC_MERGE_PATCH, VALUES)],
    ids=["json", "merge", "strategic"],
)
def test_any_patch_is_applied_or_refused(kind, content_type, patches):
    store = made(make_store())

    @settings(max_examples=examples(80), deadline=None)
    @given(patch=patches, subresource=some.sampled_from(SUBRESOURCES.get(kind, [""])))
    @example(patch={"$retainKeys": 5}, subresource="")
    @example(patch={"metadata": {"$retainKeys": [["name"]]}}, subresource="")
    @example(patch={"metadata": 5}, subresource="")
    @example(patch={"metadata": {"name": ["web"]}}, subresource="")
    @example(patch={"metadata": {"finalizers": [{"a": 1}, [2]]}}, subresource="")
    @example(patch={"metadata": {"ownerReferences": [{"uid": {}}, {"uid": []}]}}, subresource="")
    @example(patch={"spec": {"containers": [{"name": ["a"]}, {"name": {"b": 1}}]}}, subresource="")
    @example(
        patch={"spec": {"containers": [{"name": "x"}], "$setElementOrder/containers": [{"name": []}]}}, subresource=""
    )
    @example(patch={"spec": None, "status": None}, subresource="status")
    @example(patch={"spec": 1}, subresource="resize" if kind is PODS else "")
    def check(patch, subresource):
        patch = json.loads(json.dumps(patch))
        status = 200
        try:
            store.patch(kind, "" if kind is NODES else "default", "web", patch, content_type, subresource)
        except StoreError as error:
            status = error.status_code
        assert 200 <= status < 500
        shown = json.dumps(store.get(kind, "default", "web"))
        assert '"resourceVersion"' in shown and '"uid"' in shown

    check()
