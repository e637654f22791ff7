"""[sig-api-machinery] Watchers, chunking, tables, discovery and the version."""

import threading

from packages.cluster.tests.suite.client import refused, spec
from tests.waiting import eventually

MANY = 400


def config_map(name, label="", **data):
    labels = {"watched": label} if label else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}


def has_said(count):
    return lambda seen: len(seen) == count


def said(events):
    return [(kind, obj["metadata"]["name"], (obj.get("data") or {}).get("n")) for kind, obj in events]


@spec("Watchers should observe add, update, and delete watch notifications on configmaps")
def test_watchers_see_what_they_select(cluster):
    since = cluster.listing("ConfigMap")["metadata"]["resourceVersion"]
    for label in ("a", "b"):
        cluster.create(config_map(f"map-{label}", label, n="0"))
        for number in ("1", "2"):
            cluster.patch("ConfigMap", f"map-{label}", {"data": {"n": number}})
        cluster.delete("ConfigMap", f"map-{label}")
    types = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    for selector, labels in (("watched=a", "a"), ("watched=b", "b"), ("watched in (a,b)", "ab")):
        events = cluster.watch("ConfigMap", has_said(4 * len(labels)), resourceVersion=since, labelSelector=selector)
        expected = [
            (kind, f"map-{label}", n) for label in labels for kind, n in zip(types, ("0", "1", "2", "2"), strict=True)
        ]
        assert said(events) == expected


@spec("Watchers should be able to start watching from a specific resource version")
def test_a_watch_starts_where_it_is_told(cluster):
    cluster.create(config_map("one", n="0"))
    first = cluster.patch("ConfigMap", "one", {"data": {"n": "1"}})
    cluster.patch("ConfigMap", "one", {"data": {"n": "2"}})
    cluster.delete("ConfigMap", "one")
    events = cluster.watch(
        "ConfigMap",
        has_said(2),
        resourceVersion=first["metadata"]["resourceVersion"],
        fieldSelector="metadata.name=one",
    )
    assert said(events) == [("MODIFIED", "one", "2"), ("DELETED", "one", "2")]


@spec("Watchers should be able to restart watching from the last resource version observed by the previous watch")
def test_a_watch_goes_on_where_another_ended(cluster):
    since = cluster.listing("ConfigMap")["metadata"]["resourceVersion"]
    cluster.create(config_map("one", "a", n="0"))
    cluster.patch("ConfigMap", "one", {"data": {"n": "1"}})
    events = cluster.watch("ConfigMap", has_said(2), resourceVersion=since, labelSelector="watched=a")
    cluster.patch("ConfigMap", "one", {"data": {"n": "2"}})
    cluster.delete("ConfigMap", "one")
    last = events[-1][1]["metadata"]["resourceVersion"]
    events = cluster.watch("ConfigMap", has_said(2), resourceVersion=last, labelSelector="watched=a")
    assert said(events) == [("MODIFIED", "one", "2"), ("DELETED", "one", "2")]


@spec("Watchers should observe an object deletion if it stops meeting the requirements of the selector")
def test_what_is_selected_no_more_is_deleted_for_the_watcher(cluster):
    since = cluster.listing("ConfigMap")["metadata"]["resourceVersion"]
    cluster.create(config_map("one", "a", n="0"))
    cluster.patch("ConfigMap", "one", {"data": {"n": "1"}})
    cluster.patch("ConfigMap", "one", {"metadata": {"labels": {"watched": "other"}}})
    cluster.patch("ConfigMap", "one", {"data": {"n": "2"}})
    cluster.patch("ConfigMap", "one", {"metadata": {"labels": {"watched": "a"}}})
    cluster.patch("ConfigMap", "one", {"data": {"n": "3"}})
    cluster.delete("ConfigMap", "one")
    events = cluster.watch("ConfigMap", has_said(6), resourceVersion=since, labelSelector="watched=a")
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert events[3][1]["data"]["n"] == "2"


@spec("Watchers should receive events on concurrent watches in same order")
def test_all_watchers_see_the_same_order(cluster):
    since = cluster.listing("ConfigMap")["metadata"]["resourceVersion"]

    def write():
        for number in range(30):
            name = f"map-{number % 5}"
            if number % 15 < 5:
                cluster.create(config_map(name, n=str(number)))
            elif number % 15 < 10:
                cluster.patch("ConfigMap", name, {"data": {"n": str(number)}})
            else:
                cluster.delete("ConfigMap", name)

    writer = threading.Thread(target=write)
    writer.start()
    only_ours = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}
    whole = cluster.watch("ConfigMap", has_said(30), resourceVersion=since, **only_ours)
    writer.join()
    versions = [obj["metadata"]["resourceVersion"] for _, obj in whole]
    for position in (0, 9, 21):
        later = cluster.watch(
            "ConfigMap",
            has_said(29 - position),
            resourceVersion=versions[position],
            **only_ours,
        )
        assert [obj["metadata"]["resourceVersion"] for _, obj in later] == versions[position + 1 :]


def create_templates(cluster, many=MANY):
    for number in range(many):
        made = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        metadata = {"name": f"template-{number:04d}"}
        cluster.create({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": made})


@spec("Servers with support for API chunking should return chunks of results for list calls")
def test_lists_come_in_chunks(cluster):
    create_templates(cluster)
    names, version, token = [], None, ""
    while token is not None:
        query = {"limit": 17} | ({"continue": token} if token else {})
        page = cluster.listing("PodTemplate", **query)
        metadata = page["metadata"]
        version = version or metadata["resourceVersion"]
        assert metadata["resourceVersion"] == version
        names += [one["metadata"]["name"] for one in page["items"]]
        assert metadata.get("remainingItemCount", 0) == MANY - len(names)
        token = metadata.get("continue") or None
        assert (token is None) == (len(names) == MANY)
    assert names == [f"template-{number:04d}" for number in range(MANY)]
    whole = cluster.listing("PodTemplate")
    assert len(whole["items"]) == MANY
    assert not whole["metadata"].get("continue") and not whole["metadata"].get("remainingItemCount")


@spec(
    "Servers with support for Table transformation should return a 406 for a backend which does not implement metadata"
)
def test_a_review_is_no_table(cluster):
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "kube-system"}},
    }
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert refused(cluster.call, "POST", path, review, Accept=table).code == 406


@spec("server version should find the server version")
def test_the_version_is_two_numbers(cluster):
    version = cluster.call("GET", "/version")
    assert version["major"].isdigit() and version["minor"].isdigit()


@spec("Discovery should validate PreferredVersion for each APIGroup")
def test_each_group_prefers_a_version_that_it_has(cluster):
    for group in cluster.call("GET", "/apis")["groups"]:
        one = cluster.call("GET", f"/apis/{group['name']}")
        assert one["preferredVersion"] in one["versions"] == group["versions"]
        assert one["preferredVersion"]["groupVersion"].startswith(group["name"])


@spec("Discovery should locate the groupVersion and a resource within each APIGroup")
def test_each_group_has_its_resources(cluster):
    known = {
        "apiextensions.k8s.io": "customresourcedefinitions",
        "apiregistration.k8s.io": "apiservices",
        "apps": "deployments",
        "authentication.k8s.io": "tokenreviews",
        "authorization.k8s.io": "selfsubjectaccessreviews",
        "autoscaling": "horizontalpodautoscalers",
        "batch": "jobs",
        "certificates.k8s.io": "certificatesigningrequests",
        "coordination.k8s.io": "leases",
        "discovery.k8s.io": "endpointslices",
        "events.k8s.io": "events",
        "flowcontrol.apiserver.k8s.io": "flowschemas",
        "networking.k8s.io": "ingresses",
        "node.k8s.io": "runtimeclasses",
        "policy": "poddisruptionbudgets",
        "scheduling.k8s.io": "priorityclasses",
        "storage.k8s.io": "csinodes",
    }
    groups = {group["name"]: group for group in cluster.call("GET", "/apis")["groups"]}
    for name, plural in known.items():
        version = groups[name]["preferredVersion"]["groupVersion"]
        found = cluster.call("GET", f"/apis/{version}")
        assert found["groupVersion"] == version
        assert plural in [one["name"] for one in found["resources"]]


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def aggregated(cluster, root="/apis", accept=AGGREGATED):
    answer = cluster.call("GET", root, Accept=accept)
    assert answer["kind"] == "APIGroupDiscoveryList" and answer["apiVersion"] == "apidiscovery.k8s.io/v2"
    return {
        (item["metadata"].get("name", ""), version["version"], one["resource"]): one
        for item in answer["items"]
        for version in item["versions"]
        for one in version["resources"]
    }


@spec(
    "AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers",
    "AggregatedDiscovery should support aggregated discovery interface",
)
def test_discovery_in_one_answer(cluster):
    named = AGGREGATED + ",application/json"
    assert {("", "v1", "namespaces"), ("", "v1", "pods"), ("", "v1", "services")} <= set(aggregated(cluster, "/api"))
    found = aggregated(cluster, accept=named)
    assert {
        ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        ("apps", "v1", "deployments"),
        ("batch", "v1", "jobs"),
        ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        ("scheduling.k8s.io", "v1", "priorityclasses"),
    } <= set(found)
    assert found["apps", "v1", "deployments"]["scope"] == "Namespaced"
    plain = cluster.call("GET", "/apis")
    assert plain["kind"] == "APIGroupList"


@spec(
    "AggregatedDiscovery should support raw aggregated discovery request for CRDs",
    "AggregatedDiscovery should support aggregated discovery interface for CRDs",
)
def test_custom_resources_in_aggregated_discovery(cluster, definitions):
    definition = definitions.create("Foo")
    key = (definition["spec"]["group"], "v1", definition["spec"]["names"]["plural"])
    found = eventually(lambda: aggregated(cluster).get(key))
    assert found["responseKind"]["kind"] == "Foo"
