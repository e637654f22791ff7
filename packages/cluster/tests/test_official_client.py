"""The official Python client against `berth apiserver`: list, watch, create, bind, patch, delete."""

import threading

import pytest

kubernetes = pytest.importorskip("kubernetes", reason="the official client is not installed")


@pytest.fixture(scope="module")
def api(api_server):
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(api_server), client_configuration=configuration)
    with kubernetes.client.ApiClient(configuration) as client:
        yield client
        client.rest_client.pool_manager.clear()


@pytest.fixture
def core(api):
    return kubernetes.client.CoreV1Api(api)


@pytest.fixture
def namespace(core, request):
    name = request.node.name.replace("_", "-")[:50].strip("-")
    core.create_namespace({"metadata": {"name": name}})
    return name


def pod(name):
    container = kubernetes.client.V1Container(name="main", image="nginx:1.27")
    spec = kubernetes.client.V1PodSpec(containers=[container])
    return kubernetes.client.V1Pod(metadata=kubernetes.client.V1ObjectMeta(name=name), spec=spec)


def binding(name, node):
    target = kubernetes.client.V1ObjectReference(kind="Node", name=node)
    return kubernetes.client.V1Binding(metadata=kubernetes.client.V1ObjectMeta(name=name), target=target)


def test_create_list_and_delete(core, namespace):
    for name in ("b", "a"):
        core.create_namespaced_pod(namespace, pod(name))
    listed = core.list_namespaced_pod(namespace, field_selector="spec.nodeName=")
    assert [item.metadata.name for item in listed.items] == ["a", "b"]
    assert all(item.spec.priority == 0 and item.status.phase == "Pending" for item in listed.items)
    core.delete_namespaced_pod("a", namespace)
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.read_namespaced_pod("a", namespace)
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


def test_binding_once(core, namespace):
    core.create_namespaced_pod(namespace, pod("web"))
    # The client cannot decode the Status with which a binding is answered, hence the raw answer.
    core.create_namespaced_pod_binding("web", namespace, binding("web", "node-1"), _preload_content=False)
    assert core.read_namespaced_pod("web", namespace).spec.node_name == "node-1"
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.create_namespaced_binding(namespace, binding("web", "node-2"), _preload_content=False)
    assert caught.value.status == 409 and "is already assigned to node" in caught.value.body


def test_a_watch_resumes_where_the_list_ended(core, namespace):
    core.create_namespaced_pod(namespace, pod("before"))
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    watch, seen = kubernetes.watch.Watch(), []

    def act():
        core.create_namespaced_pod(namespace, pod("after"))
        core.create_namespaced_pod_binding("after", namespace, binding("after", "n"), _preload_content=False)
        core.delete_namespaced_pod("after", namespace, grace_period_seconds=0)

    actor = threading.Timer(0.05, act)
    actor.start()
    for event in watch.stream(core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=60):
        seen.append((event["type"], event["object"].metadata.name, event["object"].spec.node_name))
        if event["type"] == "DELETED":
            watch.stop()
    actor.join()
    assert seen == [("ADDED", "after", None), ("MODIFIED", "after", "n"), ("DELETED", "after", "n")]


def test_pages(core, namespace):
    for number in range(5):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": f"c{number}"}})
    names, token = [], None
    while token is None or token:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token)
        names.append([item.metadata.name for item in page.items])
        token = page.metadata._continue or ""
    assert names == [["c0", "c1"], ["c2", "c3"], ["c4"]]


def test_patch_status_and_scale(api, core, namespace):
    apps = kubernetes.client.AppsV1Api(api)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": spec})
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 3}})
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (3, "app=web")
    core.create_namespaced_pod(namespace, pod("one"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    patched = core.patch_namespaced_pod_status("one", namespace, {"status": {"conditions": [condition]}})
    assert patched.status.conditions[0].message == "no room"


def test_the_newer_events_are_the_older_ones(api, core, namespace):
    events = kubernetes.client.EventsV1Api(api)
    body = {
        "metadata": {"name": "one.1"},
        "eventTime": "2025-03-01T12:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "one", "namespace": namespace},
        "reason": "Scheduled",
        "note": "Successfully assigned",
        "type": "Normal",
    }
    events.create_namespaced_event(namespace, body)
    (old,) = core.list_namespaced_event(namespace, field_selector="involvedObject.name=one").items
    assert (old.message, old.involved_object.kind) == ("Successfully assigned", "Pod")


def test_the_version_and_the_groups(api):
    assert kubernetes.client.VersionApi(api).get_code().git_version == "v1.36.0"
    groups = {group.name for group in kubernetes.client.ApisApi(api).get_api_versions().groups}
    assert {"apps", "batch", "coordination.k8s.io", "storage.k8s.io"} <= groups
