"""The objects that every namespace has, and pods that need one of them.

After upstream's conformance specs "[sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace"
and "[sig-auth] ServiceAccounts no secret-based service account token should be auto-generated", and the admission
plugin ServiceAccount.
"""

import pytest

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import SERVICE_ACCOUNTS
from berth_cluster.storage.namespace_contents import AUTHENTICATION_CONFIG, ROOT_CA
from packages.cluster.tests.objects import CONFIG_MAPS, NAMESPACES, PODS, make_store, names, pod


def publish(store, ca):
    obj = {"metadata": {"name": AUTHENTICATION_CONFIG}, "data": {"client-ca-file": ca}}
    if store.find(CONFIG_MAPS, "kube-system", AUTHENTICATION_CONFIG):
        store.update(CONFIG_MAPS, "kube-system", AUTHENTICATION_CONFIG, obj)
    else:
        store.create(CONFIG_MAPS, "kube-system", obj)


def test_kube_root_ca_exists_in_any_namespace():
    store = make_store(service_accounts=True)
    store.create(NAMESPACES, "", {"metadata": {"name": "before"}})
    publish(store, "one")
    store.create(NAMESPACES, "", {"metadata": {"name": "after"}})
    for namespace in ("before", "after", "default"):
        assert store.get(CONFIG_MAPS, namespace, ROOT_CA)["data"] == {"ca.crt": "one"}
    store.delete(CONFIG_MAPS, "after", ROOT_CA)
    assert store.get(CONFIG_MAPS, "after", ROOT_CA)["data"] == {"ca.crt": "one"}
    changed = {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": "mine", "more": "x"}}
    store.update(CONFIG_MAPS, "after", ROOT_CA, changed)
    assert store.get(CONFIG_MAPS, "after", ROOT_CA)["data"] == {"ca.crt": "one"}
    publish(store, "two")
    assert store.get(CONFIG_MAPS, "before", ROOT_CA)["data"] == {"ca.crt": "two"}


def test_the_default_account_comes_back_until_the_namespace_goes():
    store = make_store(service_accounts=True)
    store.create(NAMESPACES, "", {"metadata": {"name": "team"}})
    first = store.get(SERVICE_ACCOUNTS, "team", "default")
    assert "secrets" not in first
    store.delete(SERVICE_ACCOUNTS, "team", "default")
    assert store.get(SERVICE_ACCOUNTS, "team", "default")["metadata"]["uid"] != first["metadata"]["uid"]
    store.delete(NAMESPACES, "", "team")
    store.delete(SERVICE_ACCOUNTS, "team", "default")
    assert names(store.list(SERVICE_ACCOUNTS, "team")[0]) == []


def test_pods_get_the_default_account_or_one_that_is_there():
    store = make_store(service_accounts=True)
    assert store.create(PODS, "default", pod())["spec"]["serviceAccountName"] == "default"
    with pytest.raises(StoreError) as refused:
        store.create(PODS, "default", pod("robot", serviceAccountName="robot"))
    assert (refused.value.status_code, refused.value.message) == (
        403,
        'pods "robot" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found',
    )
    store.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    made = store.create(PODS, "default", pod("robot", serviceAccountName="robot"))
    assert (made["spec"]["serviceAccount"], made["spec"]["serviceAccountName"]) == ("robot", "robot")


def test_an_api_server_alone_leaves_accounts_to_others():
    # kube-apiserver without its controllers, and with the admission plugin turned off.
    store = make_store()
    publish(store, "one")
    assert store.find(SERVICE_ACCOUNTS, "default", "default") is store.find(CONFIG_MAPS, "default", ROOT_CA) is None
    assert "serviceAccountName" not in store.create(PODS, "default", pod())["spec"]
    assert store.create(PODS, "default", pod("robot", serviceAccountName="robot"))["spec"]["serviceAccount"] == "robot"
