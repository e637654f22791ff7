"""The store: creating, reading, updating, and what every write does to metadata."""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.patches import MERGE_PATCH
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.storage.field_managers import Writer
from packages.cluster.tests.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    PODS,
    Clock,
    config_map,
    deployment,
    make_store,
    names,
    pod,
)

CLAIMS = BY_KEY["resource.k8s.io", "resourceclaims"]


def refusal(call, *args, **options):
    with pytest.raises(StoreError) as caught:
        call(*args, **options)
    return caught.value.status_code, caught.value.reason, caught.value.message


def test_a_new_object_is_completed():
    made = make_store().create(CONFIG_MAPS, "default", config_map(color="red"))
    meta = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert meta["namespace"] == "default"
    assert meta["uid"].startswith("uid-")
    assert meta["creationTimestamp"] == "2025-03-01T12:00:00Z"
    assert int(meta["resourceVersion"]) > 0
    assert "generation" not in meta


def test_what_the_caller_handed_in_stays_the_callers():
    given = config_map(color="red")
    made = make_store().create(CONFIG_MAPS, "default", given)
    given["data"]["color"] = "blue"
    assert made["data"] == {"color": "red"}
    assert "uid" not in given["metadata"]


def test_what_the_server_has_decoded_is_kept_as_it_is():
    store, body = make_store(), pod("web")
    store.create(PODS, "default", body, writer=Writer("kubectl", "v1", []))
    assert store.entry(PODS, "default", "web").obj is body


def test_the_servers_fields_cannot_be_chosen():
    given = config_map()
    given["metadata"] |= {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7}
    meta = make_store().create(CONFIG_MAPS, "default", given)["metadata"]
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2025-03-01T12:00:00Z"
    assert "generation" not in meta


def test_every_write_gets_the_next_resource_version():
    store = make_store()
    first = store.create(CONFIG_MAPS, "default", config_map("one"))
    second = store.create(PODS, "default", pod())
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    assert store.list(PODS)[1] == second["metadata"]["resourceVersion"]


def test_a_generated_name_has_five_characters_more():
    made = make_store().create(CONFIG_MAPS, "default", {"metadata": {"generateName": "run-"}})
    name = made["metadata"]["name"]
    assert name.startswith("run-") and len(name) == len("run-") + 5
    assert made["metadata"]["generateName"] == "run-"


def test_a_generated_name_that_is_taken_is_drawn_again():
    class SameTwice:
        drawn = iter(["aaaaa", "aaaaa", "bbbbb"])

        def choices(self, _characters, k):
            assert k == 5
            return next(self.drawn)

    store = make_store(rng=SameTwice())
    made = [store.create(CONFIG_MAPS, "default", {"metadata": {"generateName": "x-"}}) for _ in range(2)]
    assert names(made) == ["x-aaaaa", "x-bbbbb"]


@pytest.mark.parametrize(
    ("obj", "namespace", "expected"),
    [
        (config_map("taken"), "default", (409, "AlreadyExists", 'configmaps "taken" already exists')),
        (config_map("a"), "nowhere", (404, "NotFound", 'namespaces "nowhere" not found')),
        (config_map("a"), "", (400, "BadRequest", "an empty namespace may not be set during creation")),
        (
            {"metadata": {"name": "a", "namespace": "kube-system"}},
            "default",
            (
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ),
        (
            {"metadata": {"name": "a", "resourceVersion": "1"}},
            "default",
            (400, "BadRequest", "resourceVersion should not be set on objects to be created"),
        ),
        (
            {"metadata": {}},
            "default",
            (
                422,
                "Invalid",
                'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
            ),
        ),
    ],
)
def test_creations_that_are_refused(obj, namespace, expected):
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map("taken"))
    assert refusal(store.create, CONFIG_MAPS, namespace, obj) == expected


def test_nothing_is_created_in_a_namespace_that_is_going():
    store = make_store()
    store.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    store.delete(NAMESPACES, "", "team")
    status, reason, message = refusal(store.create, CONFIG_MAPS, "team", config_map("a"))
    assert (status, reason) == (403, "Forbidden")
    assert message == (
        'configmaps "a" is forbidden: unable to create new content in namespace team because it is being terminated'
    )


def test_a_list_is_sorted_and_can_be_narrowed():
    store = make_store()
    for namespace, name in (("kube-system", "b"), ("default", "c"), ("default", "a")):
        store.create(CONFIG_MAPS, namespace, config_map(name))
    assert names(store.list(CONFIG_MAPS)[0]) == ["a", "c", "b"]
    assert names(store.list(CONFIG_MAPS, "default")[0]) == ["a", "c"]
    assert names(store.list(CONFIG_MAPS, field_selector="metadata.name!=c")[0]) == ["a", "b"]


def test_getting_what_is_not_there():
    store = make_store()
    assert refusal(store.get, DEPLOYMENTS, "default", "web") == (
        404,
        "NotFound",
        'deployments.apps "web" not found',
    )
    assert store.find(DEPLOYMENTS, "default", "web") is None


def test_an_update_replaces_the_object_and_keeps_what_is_the_servers():
    clock = Clock()
    store = make_store(clock)
    made = store.create(CONFIG_MAPS, "default", config_map(color="red"))
    clock.advance(60)
    written = store.update(CONFIG_MAPS, "default", "settings", config_map(shape="round"))
    assert written["data"] == {"shape": "round"}
    for key in ("uid", "creationTimestamp", "namespace"):
        assert written["metadata"][key] == made["metadata"][key]
    assert int(written["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1


def test_an_update_of_an_old_version_is_refused():
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map())
    store.update(CONFIG_MAPS, "default", "settings", {**made, "data": {"a": "1"}})
    assert refusal(store.update, CONFIG_MAPS, "default", "settings", {**made, "data": {"a": "2"}}) == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
            "please apply your changes to the latest version and try again"
        ),
    )


def test_an_update_meant_for_another_object_is_refused():
    store = make_store()
    store.create(CONFIG_MAPS, "default", config_map())
    other = config_map()
    other["metadata"]["uid"] = "somebody-else"
    status, reason, message = refusal(store.update, CONFIG_MAPS, "default", "settings", other)
    assert (status, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: somebody-else" in message
    status, _, message = refusal(store.update, CONFIG_MAPS, "default", "settings", config_map("other"))
    assert status == 400
    assert message == "the name of the object (other) does not match the name on the URL (settings)"


def test_a_lease_is_never_overwritten_blindly():
    store = make_store()
    store.create(LEASES, "default", {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}})
    blind = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "b"}}
    status, _, message = refusal(store.update, LEASES, "default", "leader", blind)
    assert status == 422 and message.endswith("must be specified for an update")


def test_an_update_that_changes_nothing_is_no_write():
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map(color="red"))
    assert store.update(CONFIG_MAPS, "default", "settings", made) == made
    assert str(store.revision) == made["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec_only():
    store = make_store()
    made = store.create(DEPLOYMENTS, "default", deployment())
    assert made["metadata"]["generation"] == 1
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    labelled = store.update(DEPLOYMENTS, "default", "web", labelled)
    assert labelled["metadata"]["generation"] == 1
    with_status = store.update(DEPLOYMENTS, "default", "web", {**labelled, "status": {"replicas": 1}}, "status")
    assert with_status["metadata"]["generation"] == 1
    grown = store.update(DEPLOYMENTS, "default", "web", {**with_status, "spec": {**made["spec"], "replicas": 5}})
    assert grown["metadata"]["generation"] == 2


def test_status_and_spec_are_written_apart():
    store = make_store()
    made = store.create(DEPLOYMENTS, "default", {**deployment(replicas=2), "status": {"replicas": 9}})
    assert made["status"] == {}
    mixed = {**made, "spec": {**made["spec"], "replicas": 7}, "status": {"readyReplicas": 2}}
    written = store.update(DEPLOYMENTS, "default", "web", mixed, "status")
    assert (written["spec"]["replicas"], written["status"]) == (2, {"readyReplicas": 2})
    mixed = {**written, "spec": {**made["spec"], "replicas": 7}, "status": {}}
    written = store.update(DEPLOYMENTS, "default", "web", mixed)
    assert (written["spec"]["replicas"], written["status"]) == (7, {"readyReplicas": 2})


def test_a_dry_run_leaves_no_trace():
    store = make_store()
    before = store.revision
    made = store.create(CONFIG_MAPS, "default", config_map(), dry_run=True)
    assert made["metadata"]["uid"]
    assert store.revision == before and store.find(CONFIG_MAPS, "default", "settings") is None


def test_subscribers_hear_of_each_change_once_and_in_order():
    store = make_store()
    heard = []

    def echo(change, resource, obj, old):
        if resource is CONFIG_MAPS and change == "ADDED" and obj["metadata"]["name"] == "first":
            store.create(CONFIG_MAPS, "default", config_map("second"))

    def listen(change, resource, obj, old):
        heard.append((change, obj["metadata"]["name"], None if old is None else old["metadata"]["name"]))

    store.subscribe(echo)
    store.subscribe(listen)
    store.create(CONFIG_MAPS, "default", config_map("first"))
    store.delete(CONFIG_MAPS, "default", "first")
    assert heard == [("ADDED", "first", None), ("ADDED", "second", None), ("DELETED", "first", "first")]


def test_the_system_objects_are_there_from_the_start():
    store = make_store()
    assert names(store.list(NAMESPACES)[0]) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert store.get(NAMESPACES, "", "default")["status"] == {"phase": "Active"}
    assert make_store(system_objects=False).list(NAMESPACES)[0] == []


def test_what_is_no_json_is_refused():
    status, _, message = refusal(make_store().create, CONFIG_MAPS, "default", {"metadata": {"name": object()}})
    assert status == 400 and message.startswith("the object is not JSON")


def test_version_zero_is_any_version_and_none_where_one_is_needed():
    """As upstream's versioner reads it: what a spec of the end-to-end suite puts over a node."""
    store = make_store()
    made = store.create(CONFIG_MAPS, "default", config_map(color="red"))
    made["metadata"]["resourceVersion"] = "0"
    assert (
        store.update(CONFIG_MAPS, "default", "settings", {**made, "data": {"color": "blue"}})["data"]["color"] == "blue"
    )
    lease = store.create(LEASES, "default", {"metadata": {"name": "l"}})
    lease["metadata"]["resourceVersion"] = "0"
    assert refusal(store.update, LEASES, "default", "l", lease)[0] == 422


# What a stock API server 1.36 makes of a patch of `status` that holds metadata, asked kind by kind.
@pytest.mark.parametrize(
    ("resource", "obj", "changes"),
    [
        (NAMESPACES, {"metadata": {"name": "x"}}, {"labels", "annotations", "finalizers", "ownerReferences"}),
        (DEPLOYMENTS, deployment("x"), {"annotations", "finalizers", "ownerReferences"}),
        (PODS, pod("x"), {"labels", "annotations", "finalizers"}),
        (CLAIMS, {"metadata": {"name": "x"}, "spec": {"devices": {}}}, set()),
    ],
)
def test_which_metadata_a_write_of_the_status_changes(resource, obj, changes):
    store = make_store()
    namespace = "" if resource is NAMESPACES else "default"
    store.create(resource, namespace, obj)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
    metadata = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["x.y/z"], "ownerReferences": [owner]}
    written = store.patch(resource, namespace, "x", {"metadata": metadata}, MERGE_PATCH, "status")["metadata"]
    has = {
        "labels": written.get("labels", {}).get("l") == "1",
        "annotations": written.get("annotations") == {"a": "1"},
        "finalizers": written.get("finalizers") == ["x.y/z"],
        "ownerReferences": bool(written.get("ownerReferences")),
    }
    assert {name for name, is_there in has.items() if is_there} == changes
