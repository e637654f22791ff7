"""[sig-api-machinery] ResourceQuota: what it counts, in which scopes, and its own life."""

import pytest

from packages.cluster.tests.suite.client import pod, refused, spec, workload

HARD = {
    "pods": "5",
    "services": "10",
    "services.nodeports": "1",
    "services.loadbalancers": "1",
    "replicationcontrollers": "10",
    "resourcequotas": "1",
    "cpu": "1",
    "memory": "500Mi",
    "configmaps": "10",
    "secrets": "10",
    "persistentvolumeclaims": "10",
    "requests.storage": "10Gi",
    "ephemeral-storage": "50Gi",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "10",
    "gold.storageclass.storage.k8s.io/requests.storage": "10Gi",
    "requests.example.com/dongle": "3",
    "count/replicasets.apps": "5",
}


def quota(name, hard, **fields):
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **fields}}


@pytest.fixture
def used(cluster):
    """What a quota says is used, once it says so."""

    def until(name="quota", **expected):
        expected = {key.replace("__", "."): value for key, value in expected.items()}

        def says(obj):
            return expected.items() <= obj.get("status", {}).get("used", {}).items()

        return cluster.until("ResourceQuota", name, says)["status"]["used"]

    return until


@pytest.fixture
def counted(cluster, used):
    """A quota of everything that has been calculated."""
    before = len(cluster.list("ConfigMap"))
    cluster.create(quota("quota", HARD))
    assert used(resourcequotas="1").keys() == HARD.keys()
    return before


@spec("ResourceQuota should create a ResourceQuota and ensure its status is promptly calculated.")
def test_the_status_is_calculated(cluster, counted):
    status = cluster.read("ResourceQuota", "quota")["status"]
    assert status["hard"] == HARD
    assert status["used"]["pods"] == status["used"]["cpu"] == "0"


@spec("ResourceQuota should create a ResourceQuota and capture the life of a service.")
def test_the_life_of_a_service(cluster, counted, used):
    def service(name, kind):
        ports = {"ports": [{"port": 80, "targetPort": 80}], "type": kind}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": ports}

    cluster.create(service("one", "ClusterIP"))
    cluster.create(service("two", "NodePort"))
    used(services="2", services__nodeports="1", services__loadbalancers="0")
    assert refused(cluster.create, service("three", "LoadBalancer")).code == 403
    cluster.delete("Service", "one")
    cluster.delete("Service", "two")
    used(services="0", services__nodeports="0")


@spec(
    "ResourceQuota should create a ResourceQuota and capture the life of a secret.",
    "ResourceQuota should create a ResourceQuota and capture the life of a configMap.",
)
def test_the_life_of_secrets_and_config_maps(cluster, counted, used):
    used(secrets="0", configmaps=str(counted))
    for kind in ("Secret", "ConfigMap"):
        cluster.create({"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}})
    used(secrets="1", configmaps=str(counted + 1))
    for kind in ("Secret", "ConfigMap"):
        cluster.delete(kind, "one")
    used(secrets="0", configmaps=str(counted))


@spec("ResourceQuota should create a ResourceQuota and capture the life of a pod.")
def test_the_life_of_a_pod(cluster, counted, used):
    def demanding(name, **amounts):
        limits = {"example.com/dongle": amounts["example.com/dongle"]}
        return pod(name, resources={"requests": amounts, "limits": limits})

    first = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": "2"}
    made = cluster.create(demanding("one", **first))
    amounts = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", "pods": "1"}
    assert used(**amounts)["requests.example.com/dongle"] == "2"
    assert refused(cluster.create, demanding("cpu", **first | {"cpu": "600m"})).code == 403
    assert refused(cluster.create, demanding("dongles", **first | {"cpu": "100m", "memory": "1Mi"})).code == 403
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    del made["metadata"]["resourceVersion"]
    assert refused(cluster.update, made).code == 422
    used(**amounts)
    cluster.delete("Pod", "one", gracePeriodSeconds=0)
    used(**{"cpu": "0", "memory": "0", "ephemeral-storage": "0", "pods": "0"})


@spec(
    "ResourceQuota should create a ResourceQuota and capture the life of a replication controller.",
    "ResourceQuota should create a ResourceQuota and capture the life of a replica set.",
)
def test_the_life_of_workloads(cluster, counted, used):
    cluster.create(workload("ReplicationController", "rc", 0))
    cluster.create(workload("ReplicaSet", "rs", 0))
    used(**{"replicationcontrollers": "1", "count/replicasets.apps": "1"})
    cluster.delete("ReplicationController", "rc")
    cluster.delete("ReplicaSet", "rs")
    used(**{"replicationcontrollers": "0", "count/replicasets.apps": "0"})


@spec(
    "ResourceQuota should create a ResourceQuota and capture the life of a persistent volume claim",
    "ResourceQuota should create a ResourceQuota and capture the life of a persistent "
    "volume claim with a storage class",
)
def test_the_life_of_a_claim(cluster, counted, used):
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gold"}
    metadata = {"name": "one"}
    cluster.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body})
    gold = "gold.storageclass.storage.k8s.io/"
    used(persistentvolumeclaims="1", requests__storage="1Gi")
    used(
        **{f"{gold}persistentvolumeclaims".replace(".", "__"): "1", f"{gold}requests.storage".replace(".", "__"): "1Gi"}
    )
    cluster.delete("PersistentVolumeClaim", "one")
    used(persistentvolumeclaims="0", requests__storage="0")


@spec("ResourceQuota should create a ResourceQuota and capture the life of a custom resource.")
def test_the_life_of_a_custom_resource(cluster, definitions, used):
    definition = definitions.create()
    name = f"count/{definition['metadata']['name']}"
    cluster.create(quota("quota", {name: "1"}))
    used(**{name.replace(".", "__"): "0"})
    body = {"apiVersion": f"{definitions.group}/v1", "kind": "Foo", "metadata": {"name": "one"}}
    cluster.create(body)
    used(**{name.replace(".", "__"): "1"})
    assert refused(cluster.create, body | {"metadata": {"name": "two"}}).code == 403
    cluster.delete(f"{definitions.group}/v1/Foo", "one")
    used(**{name.replace(".", "__"): "0"})


BIG = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "400Mi"}}


@spec(
    "ResourceQuota should verify ResourceQuota with terminating scopes.",
    "ResourceQuota should verify ResourceQuota with terminating scopes through scope selectors.",
)
@pytest.mark.parametrize("selecting", [False, True])
def test_terminating_scopes(cluster, used, selecting):
    def scoped(name, scope):
        if selecting:
            expressions = [{"scopeName": scope, "operator": "Exists"}]
            return quota(name, hard, scopeSelector={"matchExpressions": expressions})
        return quota(name, hard, scopes=[scope])

    hard = {"pods": "5", "requests.cpu": "1", "requests.memory": "500Mi", "limits.cpu": "2", "limits.memory": "1Gi"}
    cluster.create(scoped("terminating", "Terminating"))
    cluster.create(scoped("not", "NotTerminating"))
    used("terminating", pods="0")
    used("not", pods="0")
    amounts = {"pods": "1", "requests__cpu": "500m", "requests__memory": "200Mi", "limits__cpu": "1"}
    cluster.create(pod("long", resources=BIG))
    used("not", **amounts)
    used("terminating", pods="0")
    if selecting:
        cluster.patch("Pod", "long", {"spec": {"activeDeadlineSeconds": 3600}})
        used("terminating", **amounts)
        used("not", pods="0", requests__cpu="0")
    cluster.delete("Pod", "long", gracePeriodSeconds=0)
    used("not", pods="0", limits__memory="0")
    used("terminating", pods="0")
    cluster.create(pod("short", resources=BIG, activeDeadlineSeconds=3600))
    used("terminating", **amounts)
    used("not", pods="0")
    cluster.delete("Pod", "short", gracePeriodSeconds=0)
    used("terminating", pods="0", requests__cpu="0")


@spec(
    "ResourceQuota should verify ResourceQuota with best effort scope.",
    "ResourceQuota should verify ResourceQuota with best effort scope using scope-selectors.",
)
@pytest.mark.parametrize("selecting", [False, True])
def test_best_effort_scopes(cluster, used, selecting):
    for name, scope in (("best", "BestEffort"), ("not", "NotBestEffort")):
        expressions = [{"scopeName": scope, "operator": "Exists"}]
        scopes = {"scopeSelector": {"matchExpressions": expressions}} if selecting else {"scopes": [scope]}
        cluster.create(quota(name, {"pods": "5"}, **scopes))
        used(name, pods="0")
    cluster.create(pod("best-effort"))
    used("best", pods="1")
    used("not", pods="0")
    cluster.delete("Pod", "best-effort", gracePeriodSeconds=0)
    used("best", pods="0")
    cluster.create(pod("burstable", resources=BIG))
    used("not", pods="1")
    used("best", pods="0")


@spec(
    "ResourceQuota should verify ResourceQuota's priority class scope (quota set to pod count: 1) "
    "against a pod with same priority class."
)
def test_priority_class_scope(cluster, used):
    name = f"{cluster.namespace}-pclass"
    cluster.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000}
    )
    try:
        expressions = [{"scopeName": "PriorityClass", "operator": "In", "values": [name]}]
        cluster.create(quota("quota", {"pods": "1"}, scopeSelector={"matchExpressions": expressions}))
        used(pods="0")
        cluster.create(pod("one", priorityClassName=name))
        used(pods="1")
        assert refused(cluster.create, pod("two", priorityClassName=name)).code == 403
        cluster.create(pod("other"))
        cluster.delete("Pod", "one", gracePeriodSeconds=0)
        used(pods="0")
    finally:
        cluster.delete("PriorityClass", name)


@spec("ResourceQuota should be able to update and delete ResourceQuota.")
def test_a_quota_is_changed_and_deleted(cluster):
    made = cluster.create(quota("quota", {"cpu": "1", "memory": "500Mi"}))
    made = cluster.read("ResourceQuota", "quota")
    made["spec"]["hard"] = {"cpu": "2", "memory": "1Gi"}
    del made["metadata"]["resourceVersion"]
    assert cluster.update(made)["spec"]["hard"] == {"cpu": "2", "memory": "1Gi"}
    assert cluster.read("ResourceQuota", "quota")["spec"]["hard"]["cpu"] == "2"
    cluster.delete("ResourceQuota", "quota")
    assert not cluster.exists("ResourceQuota", "quota")


@spec("ResourceQuota should manage the lifecycle of a ResourceQuota")
def test_the_life_of_a_quota(cluster):
    made = quota("quota", {"cpu": "500m", "memory": "500Mi"})
    made["metadata"]["labels"] = {cluster.namespace: "true"}
    cluster.create(made)
    selector = {"labelSelector": f"{cluster.namespace}=true"}
    assert len(cluster.list("ResourceQuota", everywhere=True, **selector)) == 1
    patch = {"metadata": {"labels": {"patched": "yes"}}, "spec": {"hard": {"memory": "750Mi"}}}
    patched = cluster.patch("ResourceQuota", "quota", patch, how="strategic")
    assert patched["spec"]["hard"] == {"cpu": "500m", "memory": "750Mi"}
    cluster.delete_all("ResourceQuota", **selector)
    cluster.until_count("ResourceQuota", 0, **selector)


@spec("ResourceQuota should apply changes to a resourcequota status")
def test_the_status_of_a_quota(cluster):
    cluster.create(quota("quota", {"cpu": "500m", "memory": "500Mi"}))
    read = cluster.until("ResourceQuota", "quota", lambda obj: obj.get("status", {}).get("hard"))
    since = read["metadata"]["resourceVersion"]
    read["status"]["hard"] = {"cpu": "2", "memory": "5Gi"}
    del read["metadata"]["resourceVersion"]
    assert cluster.update(read, "status")["status"]["hard"] == {"cpu": "2", "memory": "5Gi"}
    cluster.watch("ResourceQuota", lambda seen: seen[-1][1]["status"]["hard"]["cpu"] == "2", resourceVersion=since)
    cluster.patch("ResourceQuota", "quota", {"spec": {"hard": {"cpu": "1", "memory": "1Gi"}}})
    cluster.until("ResourceQuota", "quota", lambda obj: obj["status"]["hard"] == {"cpu": "1", "memory": "1Gi"})
    patched = cluster.patch("ResourceQuota", "quota", {"status": {"hard": {"cpu": "3", "memory": "3Gi"}}}, "status")
    assert patched["status"]["hard"] == {"cpu": "3", "memory": "3Gi"}
    assert cluster.read("ResourceQuota", "quota", "status")["spec"]["hard"] == {"cpu": "1", "memory": "1Gi"}
