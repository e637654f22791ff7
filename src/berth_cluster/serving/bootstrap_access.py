"""The access objects that a cluster has from the start: what a scheduler, users and those who ask about access need.

Besides the roles and bindings (plugin/pkg/auth/authorizer/rbac/bootstrappolicy) there is the ConfigMap in which
components that delegate authentication find the CA of client certificates. Made by the server when it starts; what is
there already stays as it is, but for the ConfigMap.
"""

from collections.abc import Iterator, Sequence

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import CONFIG_MAPS, ResourceType, resource_of
from berth_cluster.serving.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS, ROLES
from berth_cluster.storage.namespace_contents import AUTHENTICATION_CONFIG
from berth_cluster.storage.store import Store

_ADDRESS_NAME = "kubernetes"
_ADDRESS = "10.96.0.1"
_READ = ("get", "list", "watch")
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def create_access_objects(store: Store, client_ca_pem: bytes) -> None:
    """Create what is missing, and tell of the CA."""
    for kind, namespace, obj in _objects():
        if store.find(kind, namespace, obj["metadata"]["name"]) is None:
            store.create(kind, namespace, obj)
    published = {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": {"client-ca-file": client_ca_pem.decode()}}
    _put(store, CONFIG_MAPS, "kube-system", published)


def publish_address(store: Store, host: str, port: int) -> None:
    """Tell where the server is: the Service `kubernetes` in `default`, with its Endpoints and EndpointSlice."""
    meta: Object = {"name": _ADDRESS_NAME, "labels": {"component": "apiserver", "provider": _ADDRESS_NAME}}
    if store.find(resource_of("Service"), "default", _ADDRESS_NAME) is None:
        ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
        spec = {"clusterIP": _ADDRESS, "clusterIPs": [_ADDRESS], "ports": ports}
        store.create(resource_of("Service"), "default", {"metadata": meta, "spec": spec})
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    mirrored = {"name": _ADDRESS_NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}
    subsets = [{"addresses": [{"ip": host}], "ports": ports}]
    _put(store, resource_of("Endpoints"), "default", {"metadata": mirrored, "subsets": subsets})
    endpoint = {"addresses": [host], "conditions": {"ready": True}}
    kind = "IPv6" if ":" in host else "IPv4"
    labelled = {"name": _ADDRESS_NAME, "labels": {"kubernetes.io/service-name": _ADDRESS_NAME}}
    sliced = {"metadata": labelled, "addressType": kind, "endpoints": [endpoint], "ports": ports}
    _put(store, resource_of("EndpointSlice"), "default", sliced)


def _put(store: Store, kind: ResourceType, namespace: str, obj: Object) -> None:
    if store.find(kind, namespace, obj["metadata"]["name"]) is None:
        store.create(kind, namespace, obj)
    else:
        store.update(kind, namespace, obj["metadata"]["name"], obj)


def _objects() -> Iterator[tuple[ResourceType, str, Object]]:
    yield _cluster_role("cluster-admin", [_rule("*", ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    yield _bound("cluster-admin", "Group", "system:masters")
    paths = [*_HEALTH, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
    yield _cluster_role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": paths}])
    yield _bound("system:discovery", "Group", "system:authenticated")
    yield _cluster_role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": list(_HEALTH)}])
    yield _bound("system:public-info-viewer", "Group", "system:authenticated", "system:unauthenticated")
    reviews = [
        _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
        _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
    ]
    yield _cluster_role("system:basic-user", reviews)
    yield _bound("system:basic-user", "Group", "system:authenticated")
    yield _cluster_role("system:auth-delegator", list(_delegating()))
    yield _cluster_role("system:monitoring", [{"verbs": ["get"], "nonResourceURLs": [*_HEALTH, "/metrics"]}])
    yield _bound("system:monitoring", "Group", "system:monitoring")
    yield _cluster_role("system:kube-scheduler", list(_scheduling()))
    yield _bound("system:kube-scheduler", "User", "system:kube-scheduler")
    yield from _for_users()
    reader = f"{AUTHENTICATION_CONFIG}-reader"
    rule = {**_rule("", ["configmaps"], _READ), "resourceNames": [AUTHENTICATION_CONFIG]}
    yield ROLES, "kube-system", {"metadata": _meta(reader), "rules": [rule]}
    yield (
        ROLE_BINDINGS,
        "kube-system",
        {
            "metadata": _meta(f"system::{reader}"),
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": reader},
            "subjects": [_subject("User", "system:kube-scheduler"), _subject("User", "system:kube-controller-manager")],
        },
    )


_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
# group -> what users of a namespace work with; "+" stands for the status beside it, "*" for scale and status
_WORKED_WITH = (
    ("", ("configmaps", "endpoints", "persistentvolumeclaims+", "pods+", "replicationcontrollers*", "serviceaccounts")),
    ("", ("services+", "events")),
    ("events.k8s.io", ("events",)),
    ("apps", ("controllerrevisions", "daemonsets+", "deployments*", "replicasets*", "statefulsets*")),
    ("autoscaling", ("horizontalpodautoscalers+",)),
    ("batch", ("cronjobs+", "jobs+")),
    ("policy", ("poddisruptionbudgets+",)),
    ("networking.k8s.io", ("ingresses+", "networkpolicies")),
    ("resource.k8s.io", ("resourceclaims+", "resourceclaimtemplates")),
)
_READ_ONLY = ("endpoints", "controllerrevisions")


def _for_users() -> Iterator[tuple[ResourceType, str, Object]]:
    """The roles `view`, `edit` and `admin` of a namespace's users: each has the rules of those that are labelled so."""
    reading = [
        _rule(group, [part for name in names for part in _with_parts(name)], _READ) for group, names in _WORKED_WITH
    ]
    reading.append(
        _rule("", ["bindings", "limitranges", "namespaces", "resourcequotas", "resourcequotas/status"], _READ)
    )
    reading.append(_rule("discovery.k8s.io", ["endpointslices"], _READ))
    writing = [
        _rule("", ["secrets"], _READ),
        _rule("", ["secrets"], _WRITE),
        _rule("", ["serviceaccounts"], ["impersonate"]),
    ]
    writing += [_rule("", ["pods/eviction", "serviceaccounts/token"], ["create"])]
    writing.append(_rule("coordination.k8s.io", ["leases"], [*_WRITE, *_READ]))
    for group, names in _WORKED_WITH:
        plain = [name.rstrip("+*") for name in names if name not in _READ_ONLY]
        scales = [f"{name.rstrip('*')}/scale" for name in names if name.endswith("*")]
        writing.append(_rule(group, plain + scales, _WRITE))
    ruling = [
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(GROUP, ["rolebindings", "roles"], [*_WRITE, *_READ]),
    ]
    for name, rules, above in (("view", reading, "edit"), ("edit", writing, "admin"), ("admin", ruling, "")):
        label = {f"{_AGGREGATE}{name}": "true"}
        meta = {"name": f"system:aggregate-to-{name}", "labels": {**_LABELS, **label}}
        yield CLUSTER_ROLES, "", {"metadata": meta, "rules": rules}
        labels = {**_LABELS, **({f"{_AGGREGATE}{above}": "true"} if above else {})}
        rule = {"clusterRoleSelectors": [{"matchLabels": label}]}
        yield CLUSTER_ROLES, "", {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule, "rules": []}


def _with_parts(name: str) -> list[str]:
    plain = name.rstrip("+*")
    return [plain, *([f"{plain}/scale"] if "*" in name else []), *([f"{plain}/status"] if plain != name else [])]


def _delegating() -> Iterator[Object]:
    yield _rule("authentication.k8s.io", ["tokenreviews"], ["create"])
    yield _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"])


def _scheduling() -> Iterator[Object]:
    yield _rule("", ["events"], ["create", "patch", "update"])
    yield _rule("events.k8s.io", ["events"], ["create", "patch", "update"])
    leases = _rule("coordination.k8s.io", ["leases"], ["get", "update", "list", "watch"])
    yield _rule("coordination.k8s.io", ["leases"], ["create"])
    yield {**leases, "resourceNames": ["kube-scheduler"]}
    yield _rule("", ["nodes", "namespaces", "services", "replicationcontrollers"], _READ)
    yield _rule("", ["pods"], [*_READ, "delete"])
    yield _rule("", ["pods/binding", "bindings"], ["create"])
    yield _rule("", ["pods/status"], ["patch", "update"])
    yield _rule("apps", ["replicasets", "statefulsets"], _READ)
    yield _rule("policy", ["poddisruptionbudgets"], _READ)
    yield _rule("", ["persistentvolumeclaims", "persistentvolumes"], [*_READ, "patch", "update"])
    yield _rule("storage.k8s.io", ["*"], _READ)
    yield from _delegating()
    yield _rule("resource.k8s.io", ["deviceclasses", "resourceslices", "devicetaintrules"], _READ)
    yield _rule("resource.k8s.io", ["resourceclaims"], [*_READ, "create", "delete", "patch", "update"])
    yield _rule("resource.k8s.io", ["resourceclaims/status"], ["patch", "update"])
    yield _rule("", ["pods/finalizers"], ["update"])
    yield _rule("scheduling.k8s.io", ["podgroups", "workloads"], _READ)
    yield _rule("scheduling.k8s.io", ["podgroups/status"], ["patch", "update"])


def _rule(group: str, resources: list[str], verbs: Sequence[str]) -> Object:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": resources}


def _meta(name: str) -> Object:
    return {"name": name, "labels": _LABELS}


def _cluster_role(name: str, rules: list[Object]) -> tuple[ResourceType, str, Object]:
    return CLUSTER_ROLES, "", {"metadata": _meta(name), "rules": rules}


def _bound(role: str, kind: str, *names: str) -> tuple[ResourceType, str, Object]:
    return (
        CLUSTER_ROLE_BINDINGS,
        "",
        {
            "metadata": _meta(role),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [_subject(kind, name) for name in names],
        },
    )


def _subject(kind: str, name: str) -> Object:
    return {"kind": kind, "apiGroup": GROUP, "name": name}
