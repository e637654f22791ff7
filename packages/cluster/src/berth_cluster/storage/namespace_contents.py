"""What clients expect to find in every namespace: the ServiceAccount `default`, and the CA as `kube-root-ca.crt`.

A cluster has one `NamespaceContents`, which is told of each change, so that both are there before the request
that made the namespace is answered, and come back when they are deleted. In a real cluster two controllers do this a
moment later. The CA is the one that the server publishes for components that delegate authentication; without a server
there is none.
"""

from berth_cluster.apimachinery.meta import Object, is_being_deleted
from berth_cluster.apimachinery.resource_types import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, ResourceType
from berth_cluster.storage.store import Store

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
AUTHENTICATION_CONFIG = "extension-apiserver-authentication"
_ABOUT_THE_CA = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class NamespaceContents:
    """Keeps the two objects of every namespace as they should be."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store
        store.subscribe(self._on_change)
        for namespace in store.objects(NAMESPACES):
            self._fill(namespace)

    def _on_change(self, change_type: str, kind: ResourceType, obj: Object, _old: Object | None) -> None:
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        if kind is NAMESPACES and change_type == "ADDED":
            self._fill(obj)
        elif (kind is SERVICE_ACCOUNTS and name == DEFAULT_ACCOUNT) or (kind is CONFIG_MAPS and name == ROOT_CA):
            found = self._store.find(NAMESPACES, "", namespace)
            if found is not None and change_type != "ADDED":
                self._fill(found)
        elif kind is CONFIG_MAPS and (namespace, name) == ("kube-system", AUTHENTICATION_CONFIG):
            for each in self._store.objects(NAMESPACES):
                self._fill(each)

    def _fill(self, namespace: Object) -> None:
        store, name = self._store, namespace["metadata"]["name"]
        if is_being_deleted(namespace):
            return
        if store.find(SERVICE_ACCOUNTS, name, DEFAULT_ACCOUNT) is None:
            store.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": DEFAULT_ACCOUNT}})
        source = store.find(CONFIG_MAPS, "kube-system", AUTHENTICATION_CONFIG) or {}
        ca = (source.get("data") or {}).get("client-ca-file")
        published = store.find(CONFIG_MAPS, name, ROOT_CA)
        if ca is None or (published is not None and published.get("data") == {"ca.crt": ca}):
            return
        annotations = {"kubernetes.io/description": _ABOUT_THE_CA}
        wanted = {"metadata": {"name": ROOT_CA, "annotations": annotations}, "data": {"ca.crt": ca}}
        if published is None:
            store.create(CONFIG_MAPS, name, wanted)
        else:
            store.update(CONFIG_MAPS, name, ROOT_CA, wanted)
