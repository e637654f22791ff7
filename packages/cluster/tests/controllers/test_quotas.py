"""ResourceQuotas, after upstream's conformance specs "[sig-api-machinery] ResourceQuota should …" of the same names.

Messages and statuses are those of kube-apiserver and kube-controller-manager v1.36, asked with the same objects.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from packages.cluster.tests.controllers.world import World, claim, job, meta, pod_template, replica_set

FOO = 'spec.hard[foo]: Invalid value: "foo": must be a'
HARD = {
    "pods": "2",
    "requests.cpu": "1",
    "limits.memory": "1Gi",
    "count/configmaps": "2",
    "configmaps": "5",
    "services": "1",
    "requests.storage": "5Gi",
    "persistentvolumeclaims": "2",
}


def quota(name="one", hard=None, **spec):
    return {"kind": "ResourceQuota", "metadata": meta(name), "spec": {"hard": hard or HARD, **spec}}


def pod(name, requests=None, limits=None, **spec):
    container = {"name": "m", "image": "x", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return {"kind": "Pod", "metadata": meta(name), "spec": {"containers": [container], **spec}}


def refusal(world, obj):
    with pytest.raises(StoreError) as refused:
        world.create(obj)
    assert refused.value.status_code == 403
    return refused.value.message.partition(" is forbidden: ")[2]


@pytest.fixture
def world():
    return World()


def used(world, name="one"):
    return world.status("ResourceQuota", name)["used"]


def test_should_create_a_resource_quota_and_ensure_its_status_is_promptly_calculated(world):
    world.create(quota())
    world.run()
    status = world.status("ResourceQuota", "one")
    assert status["hard"] == HARD
    assert status["used"] == {**dict.fromkeys(HARD, "0")}


def test_should_create_a_resource_quota_and_capture_the_life_of_a_pod(world):
    world.create(quota())
    assert refusal(world, pod("a")) == "failed quota: one: must specify limits.memory for: m; requests.cpu for: m"
    found = refusal(world, pod("a", {"cpu": "1500m"}, {"memory": "2Gi"}))
    assert found == (
        "exceeded quota: one, requested: limits.memory=2Gi,requests.cpu=1500m, used: limits.memory=0,requests.cpu=0, "
        "limited: limits.memory=1Gi,requests.cpu=1"
    )
    world.create(pod("a", {"cpu": "300m"}, {"memory": "200Mi"}))
    world.create(pod("b", {"cpu": "0.3"}, {"memory": "200Mi"}))
    found = refusal(world, pod("c", {"cpu": "100m"}, {"memory": "200Mi"}))
    assert found == "exceeded quota: one, requested: pods=1, used: pods=2, limited: pods=2"
    assert {"pods": "2", "requests.cpu": "600m", "limits.memory": "400Mi"}.items() <= used(world).items()
    world.run(5)
    world.delete("Pod", "a")
    world.run(5)
    assert {"pods": "1", "requests.cpu": "300m", "limits.memory": "200Mi"}.items() <= used(world).items()


def test_a_pod_that_has_ended_is_counted_no_more(world):
    world.create(quota(hard={"pods": "1", "count/pods": "5"}))
    world.create(job("short", {"berth.dev/run-seconds": "1"}))
    world.run()
    assert used(world) == {"pods": "1", "count/pods": "1"}
    world.run(5)
    assert used(world) == {"count/pods": "1", "pods": "0"}


def test_should_create_a_resource_quota_and_capture_the_life_of_services_config_maps_and_claims(world):
    world.create(quota())
    service = {"kind": "Service", "metadata": meta("s"), "spec": {"ports": [{"port": 80}]}}
    world.create(service)
    found = refusal(world, {**service, "metadata": meta("t")})
    assert found == "exceeded quota: one, requested: services=1, used: services=1, limited: services=1"
    world.create({"kind": "ConfigMap", "metadata": meta("c1")})
    world.create({"kind": "ConfigMap", "metadata": meta("c2")})
    found = refusal(world, {"kind": "ConfigMap", "metadata": meta("c3")})
    expected = (
        "exceeded quota: one, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2"
    )
    assert found == expected
    found = refusal(world, claim("p", "6Gi"))
    expected = (
        "exceeded quota: one, requested: requests.storage=6Gi, used: requests.storage=0, limited: requests.storage=5Gi"
    )
    assert found == expected
    world.create(claim("p", "3Gi"))
    world.run()
    assert {"services": "1", "configmaps": "2", "requests.storage": "3Gi"}.items() <= used(world).items()
    world.delete("ConfigMap", "c1")
    world.delete("Service", "s")
    world.run()
    assert {"services": "0", "configmaps": "1", "count/configmaps": "1"}.items() <= used(world).items()


def test_a_service_that_becomes_another_type_is_counted_anew(world):
    world.create(quota(hard={"services.nodeports": "2"}))
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    world.create({"kind": "Service", "metadata": meta("s"), "spec": {"type": "NodePort", "ports": ports}})
    world.run()
    assert used(world) == {"services.nodeports": "2"}
    world.patch("Service", "s", {"spec": {"type": "ClusterIP"}})
    world.run()
    assert used(world) == {"services.nodeports": "0"}
    world.patch("Service", "s", {"spec": {"type": "NodePort"}})
    assert used(world) == {"services.nodeports": "2"}


def test_should_create_a_resource_quota_and_capture_the_life_of_a_replica_set(world):
    world.create(quota(hard={"count/replicasets.apps": "1", "requests.example.com/gpu": "3"}))
    template = pod_template({"app": "web"})
    template["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "2"}}
    world.create(replica_set("web", 2, template=template))
    world.run(1)
    assert used(world) == {"count/replicasets.apps": "1", "requests.example.com/gpu": "2"}
    (why,) = {message.partition("forbidden: ")[2] for message in world.events("ReplicaSet", "FailedCreate")}
    assert why == (
        "exceeded quota: one, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2, "
        "limited: requests.example.com/gpu=3"
    )
    assert "exceeded quota" in refusal(world, replica_set("more", 1))


def test_should_verify_resource_quota_with_terminating_and_best_effort_scopes(world):
    for scope in ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort"):
        world.create(quota(scope.lower(), {"pods": "1"}, scopes=[scope]))
    world.create(pod("a"))
    world.create(pod("b", {"cpu": "100m"}, activeDeadlineSeconds=100))
    counted = {
        name: used(world, name)["pods"] for name in ("terminating", "notterminating", "besteffort", "notbesteffort")
    }
    assert set(counted.values()) == {"1"}
    assert "exceeded quota: besteffort" in refusal(world, pod("c", activeDeadlineSeconds=100))


def test_a_pod_that_is_given_a_deadline_counts_in_other_scopes_from_then_on(world):
    for scope in ("Terminating", "NotTerminating"):
        world.create(quota(scope.lower(), {"pods": "1", "requests.cpu": "1"}, scopes=[scope]))
    world.create(pod("a", {"cpu": "500m"}))
    world.run()
    world.patch("Pod", "a", {"spec": {"activeDeadlineSeconds": 3600}})
    assert used(world, "terminating") == {"pods": "1", "requests.cpu": "500m"}
    assert "exceeded quota: terminating" in refusal(world, pod("b", {"cpu": "100m"}, activeDeadlineSeconds=100))
    world.run()
    assert used(world, "notterminating") == {"pods": "0", "requests.cpu": "0"}
    world.create(pod("c", {"cpu": "100m"}))
    with pytest.raises(StoreError) as refused:
        world.patch("Pod", "c", {"spec": {"activeDeadlineSeconds": 3600}})
    assert refused.value.status_code == 403
    assert refused.value.message.partition(" is forbidden: ")[2] == (
        "exceeded quota: terminating, requested: pods=1, used: pods=1, limited: pods=1"
    )


def test_a_pod_that_is_given_a_deadline_has_to_say_what_it_wants(world):
    world.create(quota(hard={"requests.cpu": "1"}, scopes=["Terminating"]))
    world.create(pod("a"))
    with pytest.raises(StoreError, match=r"failed quota: one: must specify requests\.cpu for: m$"):
        world.patch("Pod", "a", {"spec": {"activeDeadlineSeconds": 3600}})


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [("In", ["high"], "1"), ("NotIn", ["high"], "1"), ("Exists", [], "1"), ("DoesNotExist", [], "1")],
)
def test_should_verify_resource_quotas_scope_using_scope_selectors_priority_class(world, operator, values, counted):
    world.create({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5})
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    world.create(quota(hard={"pods": "5"}, scopeSelector={"matchExpressions": [expression]}))
    world.create(pod("a", priorityClassName="high"))
    world.create(pod("b"))
    world.run()
    assert used(world)["pods"] == counted


def test_should_be_able_to_update_and_delete_a_resource_quota(world):
    world.create(quota(hard={"pods": "1"}))
    world.create(pod("a"))
    world.patch("ResourceQuota", "one", {"spec": {"hard": {"pods": "2"}}})
    world.create(pod("b"))
    world.run()
    assert world.status("ResourceQuota", "one") == {"hard": {"pods": "2"}, "used": {"pods": "2"}}
    world.delete("ResourceQuota", "one")
    world.create(pod("c"))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"hard": {"pods": "-1"}}, 'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"hard": {"pods": "1.5"}}, 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
        (
            {"hard": {"foo": "1"}},
            f"[{FOO} standard resource type or fully qualified, {FOO} standard resource for quota]",
        ),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
            'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
        ({"hard": {"cpu": "1"}, "scopes": ["X"]}, 'spec.scopes: Invalid value: ["X"]: unsupported scope'),
        (
            {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
            'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
        ),
    ],
)
def test_quotas_that_are_refused(world, spec, why):
    with pytest.raises(StoreError) as refused:
        world.create(quota(**spec))
    assert refused.value.message == f'ResourceQuota "one" is invalid: {why}'


def test_should_create_a_resource_quota_and_capture_the_life_of_a_custom_resource(world):
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    world.create({"kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"}, "spec": spec})
    world.create(quota(hard={"count/foos.example.com": "1"}))
    world.run()
    assert used(world) == {"count/foos.example.com": "0"}
    foos = next(iter(world.store.custom.stored()))

    def foo(name):
        world.store.create(foos, "default", {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": meta(name)})

    foo("one")
    world.run()
    assert used(world) == {"count/foos.example.com": "1"}
    with pytest.raises(StoreError, match="exceeded quota: one"):
        foo("two")
    world.store.delete(foos, "default", "one")
    world.run()
    assert used(world) == {"count/foos.example.com": "0"}
