"""The access objects that a cluster has from the start: what a scheduler, users and those who ask about access need.

Besides the roles and bindings (plugin/pkg/auth/authorizer/rbac/bootstrappolicy) there is the ConfigMap in which
components that delegate authentication find the CA of client certificates. Made by the server when it starts; what is
there already stays as it is, but for the ConfigMap.
"""

import re
from collections.abc import Iterable, Iterator

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import CONFIG_MAPS, ResourceType, resource_of
from berth_cluster.serving.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUP, ROLE_BINDINGS, ROLES
from berth_cluster.storage.namespace_contents import AUTHENTICATION_CONFIG
from berth_cluster.storage.store import Store

_ADDRESS_NAME = "kubernetes"
_ADDRESS = "10.96.0.1"
_READ, _WRITE = "get,list,watch", "create,delete,deletecollection,patch,update"
_HEALTH = "/healthz,/livez,/readyz,/version,/version/"
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


# Under a ClusterRole, and whom it is bound to, its rules: verbs, group (`-` for the first one) and resources, perhaps
# with the only name that they count for; or verbs and paths.
_ROLES = f"""
cluster-admin Group system:masters
  * * *
  * *
system:discovery Group system:authenticated
  get {_HEALTH},/api,/api/*,/apis,/apis/*,/openapi,/openapi/*
system:public-info-viewer Group system:authenticated,system:unauthenticated
  get {_HEALTH}
system:basic-user Group system:authenticated
  create authentication.k8s.io selfsubjectreviews
  create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
system:auth-delegator
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
system:monitoring Group system:monitoring
  get {_HEALTH},/metrics
system:kube-scheduler User system:kube-scheduler
  create,patch,update - events
  create,patch,update events.k8s.io events
  create coordination.k8s.io leases
  get,update,list,watch coordination.k8s.io leases kube-scheduler
  {_READ} - nodes,namespaces,services,replicationcontrollers
  {_READ},delete - pods
  create - pods/binding,bindings
  patch,update - pods/status
  {_READ} apps replicasets,statefulsets
  {_READ} policy poddisruptionbudgets
  {_READ},patch,update - persistentvolumeclaims,persistentvolumes
  {_READ} storage.k8s.io *
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
  {_READ} resource.k8s.io deviceclasses,resourceslices,devicetaintrules
  {_READ},create,delete,patch,update resource.k8s.io resourceclaims
  patch,update resource.k8s.io resourceclaims/status
  update - pods/finalizers
  {_READ} scheduling.k8s.io podgroups,workloads
  patch,update scheduling.k8s.io podgroups/status
"""
_READER = f"{AUTHENTICATION_CONFIG}-reader"


def _objects() -> Iterator[tuple[ResourceType, str, Object]]:
    for text in re.split(r"\n(?! )", _ROLES.strip()):
        head, *rules = text.split("\n")
        name, *bound = head.split()
        yield CLUSTER_ROLES, "", {"metadata": _meta(name), "rules": [_rule(rule) for rule in rules]}
        if bound:
            yield CLUSTER_ROLE_BINDINGS, "", _binding(name, "ClusterRole", name, bound[0], bound[1].split(","))
    rule = _rule(f"{_READ} - configmaps {AUTHENTICATION_CONFIG}")
    yield ROLES, "kube-system", {"metadata": _meta(_READER), "rules": [rule]}
    users = ("system:kube-scheduler", "system:kube-controller-manager")
    yield ROLE_BINDINGS, "kube-system", _binding(f"system::{_READER}", "Role", _READER, "User", users)
    yield from _for_users()


_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
# group -> what users of a namespace work with; "+" stands for the status beside it, "*" for scale and status
_WORKED_WITH = (
    (
        "-",
        ("configmaps", "endpoints", "persistentvolumeclaims+", "pods+", "replicationcontrollers*", "serviceaccounts"),
    ),
    ("-", ("services+", "events")),
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
        f"{_READ} {group} {','.join(part for name in names for part in _with_parts(name))}"
        for group, names in _WORKED_WITH
    ]
    reading.append(f"{_READ} - bindings,limitranges,namespaces,resourcequotas,resourcequotas/status")
    reading.append(f"{_READ} discovery.k8s.io endpointslices")
    writing = [f"{_READ} - secrets", f"{_WRITE} - secrets", "impersonate - serviceaccounts"]
    writing += ["create - pods/eviction,serviceaccounts/token", f"{_WRITE},{_READ} coordination.k8s.io leases"]
    for group, names in _WORKED_WITH:
        plain = [name.rstrip("+*") for name in names if name not in _READ_ONLY]
        scales = [f"{name.rstrip('*')}/scale" for name in names if name.endswith("*")]
        writing.append(f"{_WRITE} {group} {','.join(plain + scales)}")
    ruling = ["create authorization.k8s.io localsubjectaccessreviews", f"{_WRITE},{_READ} {GROUP} rolebindings,roles"]
    for name, rules, above in (("view", reading, "edit"), ("edit", writing, "admin"), ("admin", ruling, "")):
        label = {f"{_AGGREGATE}{name}": "true"}
        meta = {"name": f"system:aggregate-to-{name}", "labels": {**_LABELS, **label}}
        yield CLUSTER_ROLES, "", {"metadata": meta, "rules": [_rule(rule) for rule in rules]}
        labels = {**_LABELS, **({f"{_AGGREGATE}{above}": "true"} if above else {})}
        rule = {"clusterRoleSelectors": [{"matchLabels": label}]}
        yield CLUSTER_ROLES, "", {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule, "rules": []}


def _with_parts(name: str) -> list[str]:
    plain = name.rstrip("+*")
    return [plain, *([f"{plain}/scale"] if "*" in name else []), *([f"{plain}/status"] if plain != name else [])]


def _rule(text: str) -> Object:
    verbs, *rest = (word.split(",") for word in text.split())
    if len(rest) == 1:
        return {"verbs": verbs, "nonResourceURLs": rest[0]}
    rule = {"verbs": verbs, "apiGroups": [group.strip("-") for group in rest[0]], "resources": rest[1]}
    return rule | ({"resourceNames": rest[2]} if rest[2:] else {})


def _meta(name: str) -> Object:
    return {"name": name, "labels": _LABELS}


def _binding(name: str, role_kind: str, role: str, kind: str, names: Iterable[str]) -> Object:
    subjects = [{"kind": kind, "apiGroup": GROUP, "name": name} for name in names]
    reference = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return {"metadata": _meta(name), "roleRef": reference, "subjects": subjects}
