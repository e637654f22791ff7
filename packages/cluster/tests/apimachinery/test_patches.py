"""Patches on plain JSON: RFC 6902, RFC 7386, and strategic merge as Kubernetes documents it."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
    json_patch,
    merge_patch,
)
from packages.cluster.tests.objects import CONFIG_MAPS, DEPLOYMENTS, config_map, deployment, make_store


# The examples of RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches(original, patch, result):
    assert merge_patch(original, patch) == result


# The examples of RFC 6902, appendix A, and the corners around them.
@pytest.mark.parametrize(
    ("original", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": "qux"}], {"foo": ["bar", "qux"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a/b": 1}, [{"op": "replace", "path": "/a~1b", "value": 2}], {"a/b": 2}),
        ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),  # not in the RFC, but upstream
    ],
)
def test_json_patches(original, operations, result):
    assert json_patch(original, operations) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "replace", "path": "/list/0", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "jump", "path": "/a", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_fit(operation):
    with pytest.raises(StoreError) as caught:
        json_patch({"a": 1, "list": []}, [operation])
    assert caught.value.status_code == 422
    assert caught.value.message == "the server rejected our request due to an error in our request"


def containers(*pairs):
    return {"spec": {"containers": [{"name": name, "image": image} for name, image in pairs]}}


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        pytest.param(
            containers(("a", "one"), ("b", "two")),
            {"spec": {"containers": [{"name": "b", "image": "three"}]}},
            containers(("a", "one"), ("b", "three")),
            id="containers merge by name",
        ),
        pytest.param(
            containers(("a", "one")),
            {"spec": {"containers": [{"name": "c", "image": "new"}]}},
            containers(("c", "new"), ("a", "one")),
            id="a new one is added",
        ),
        pytest.param(
            containers(("a", "one"), ("b", "two")),
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            containers(("b", "two")),
            id="$patch: delete takes one out",
        ),
        pytest.param(
            containers(("a", "one"), ("b", "two")),
            {"spec": {"containers": [{"name": "c", "image": "x"}, {"$patch": "replace"}]}},
            containers(("c", "x")),
            id="$patch: replace replaces the list",
        ),
        pytest.param(
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
            id="$retainKeys drops the other fields",
        ),
        pytest.param(
            {"spec": {"a": 1, "b": 2}},
            {"spec": {"$patch": "replace", "c": 3}},
            {"spec": {"c": 3}},
            id="$patch: replace replaces an object",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are atomic",
        ),
        pytest.param(
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
            id="taints are atomic",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="$deleteFromPrimitiveList",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
            id="finalizers merge",
        ),
        pytest.param(
            containers(("a", "1"), ("b", "2"), ("c", "3")),
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}],
                    "containers": [{"name": "c", "image": "4"}],
                }
            },
            containers(("c", "4"), ("a", "1"), ("b", "2")),
            id="$setElementOrder",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]}},
            id="conditions merge by type",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]}},
            {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 443}]}]}},
            {
                "spec": {
                    "containers": [
                        {"name": "a", "ports": [{"containerPort": 443}, {"containerPort": 80, "name": "http"}]}
                    ]
                }
            },
            id="container ports merge by number",
        ),
        pytest.param(
            {"spec": {"ports": [{"port": 80, "nodePort": 1}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {"spec": {"ports": [{"port": 80, "nodePort": 1, "targetPort": 8080}]}},
            id="service ports merge by port",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"a": None, "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
            id="null removes",
        ),
    ],
)
def test_strategic_merge_patches(original, patch, result):
    """Which lists merge is part of the type: services are what has ports, nodes what has taints."""
    spec = original.get("spec", {})
    kind = {"apiVersion": "v1", "kind": "Service" if "ports" in spec else "Node" if "taints" in spec else "Pod"}
    assert apply_patch(kind | original, patch, STRATEGIC_MERGE_PATCH) == kind | result


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"$patch": "improve"}}, r"invalid value for \$patch"),
        ([], "must be a JSON object"),
    ],
)
def test_strategic_merge_patches_that_make_no_sense(patch, why):
    with pytest.raises(StoreError, match=why) as caught:
        apply_patch({"apiVersion": "v1", "kind": "Pod", **containers(("a", "one"))}, patch, STRATEGIC_MERGE_PATCH)
    assert caught.value.status_code == 400


def test_an_unknown_format_is_named():
    with pytest.raises(StoreError, match="application/merge-patch") as caught:
        apply_patch({}, {}, "text/plain")
    assert caught.value.status_code == 415


def test_a_patch_with_a_version_is_held_to_it():
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map())
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "1"}}
    store.patch(CONFIG_MAPS, "default", "settings", patch, MERGE_PATCH)
    with pytest.raises(StoreError, match="the object has been modified"):
        store.patch(CONFIG_MAPS, "default", "settings", patch, MERGE_PATCH)


def test_a_patch_without_a_version_takes_what_is_there():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map(color="red"))
    for number in range(3):
        store.patch(CONFIG_MAPS, "default", "settings", {"data": {"n": str(number)}}, MERGE_PATCH)
    assert store.get(CONFIG_MAPS, "default", "settings")["data"] == {"color": "red", "n": "2"}


def test_a_failed_patch_changes_nothing():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment(replicas=2))
    operations = [
        {"op": "replace", "path": "/spec/replicas", "value": 5},
        {"op": "test", "path": "/spec/paused", "value": True},
    ]
    with pytest.raises(StoreError):
        store.patch(DEPLOYMENTS, "default", "web", operations, JSON_PATCH)
    assert store.get(DEPLOYMENTS, "default", "web")["spec"]["replicas"] == 2


@pytest.mark.parametrize("value", ["text", 5, []])
def test_a_json_patch_cannot_make_nonsense_of_an_object(value):
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    operations = [{"op": "replace", "path": "/spec", "value": value}]
    with pytest.raises(StoreError, match="cannot unmarshal"):
        store.patch(DEPLOYMENTS, "default", "web", operations, JSON_PATCH)


def test_what_is_handed_in_as_a_patch_is_not_edited():
    store = make_store()
    store.create(DEPLOYMENTS, "default", deployment())
    container = {"name": "side", "image": "busybox"}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    store.patch(DEPLOYMENTS, "default", "web", patch, MERGE_PATCH)  # completed with defaults in the store
    assert container == {"name": "side", "image": "busybox"}


def named(text, **fields):
    return [{"name": name, **fields} for name in text]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"containers": named("d")}, "dabc"),
        ({"containers": named("ca", image="j")}, "bca"),
        ({"containers": named("zb")}, "zabc"),
        ({"containers": [{"name": "b", "$patch": "delete"}, {"name": "y"}]}, "yac"),
        ({"$setElementOrder/containers": named("ca"), "containers": named("a")}, "bca"),
        ({"$setElementOrder/containers": named("qcb"), "containers": named("q")}, "qacb"),
        ({"$setElementOrder/containers": named("ca")}, "bca"),
    ],
)
def test_the_order_of_merged_lists(patch, expected):  # as a kube-apiserver 1.36 answers
    patched = apply_patch(
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": named("abc")}},
        {"spec": patch},
        STRATEGIC_MERGE_PATCH,
    )
    assert "".join(one["name"] for one in patched["spec"]["containers"]) == expected


@pytest.mark.parametrize(("patch", "expected"), [(["x/c"], ["x/c", "x/a", "x/b"]), (["x/b", "x/a"], ["x/b", "x/a"])])
def test_the_order_of_merged_sets(patch, expected):  # the same
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": ["x/a", "x/b"]}}
    patched = apply_patch(pod, {"metadata": {"finalizers": patch}}, STRATEGIC_MERGE_PATCH)
    assert patched["metadata"]["finalizers"] == expected
