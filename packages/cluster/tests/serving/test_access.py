"""Who is let in, who somebody is, and what they may do."""

import base64
import ssl

import aiohttp
import pytest

from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.serving import access
from berth_cluster.serving.access import ISSUER, ClusterAuthenticator, ClusterUser
from berth_cluster.serving.server import ApiServer
from packages.cluster.tests.objects import CONFIG_MAPS, PODS, pod
from packages.cluster.tests.serving.conftest import Client

PODS_PATH = "/api/v1/namespaces/default/pods"
SUBJECT_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ROLES = BY_KEY["rbac.authorization.k8s.io", "roles"]
ROLE_BINDINGS = BY_KEY["rbac.authorization.k8s.io", "rolebindings"]
CLUSTER_ROLES = BY_KEY["rbac.authorization.k8s.io", "clusterroles"]
CLUSTER_ROLE_BINDINGS = BY_KEY["rbac.authorization.k8s.io", "clusterrolebindings"]


@pytest.fixture
async def server(store, tmp_path):
    users = {"token-of-jane": ClusterUser("jane", ("developers",)), "token-of-joe": ClusterUser("joe")}
    server = ApiServer(store, tmp_path / "cluster", users=users)
    await server.start()
    yield server
    await server.stop()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def grant(store, name, rule, *subjects, namespace=""):
    """A role with one rule, bound to the subjects."""
    meta = {"metadata": {"name": name}}
    bound = {"subjects": [{"kind": kind, "name": subject} for kind, subject in subjects]}
    reference = {"roleRef": {"kind": "Role" if namespace else "ClusterRole", "name": name}}
    store.create(ROLES if namespace else CLUSTER_ROLES, namespace, {**meta, "rules": [rule]})
    store.create(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, namespace, {**meta, **bound, **reference})


def rule(verbs, resources, groups=("",), **more):
    return {"verbs": list(verbs), "resources": list(resources), "apiGroups": list(groups), **more}


class TestTokens:
    async def test_the_whole_token_is_needed(self, client, server):
        token = server.token
        wrong = [token[:-1], token[:1], token + "x", token.swapcase(), " ", "token-of-jan", "token-of-janex"]
        for text in wrong:
            status, _ = await client.get("/version", headers=bearer(text))
            assert status == 401, text
        assert (await client.get("/version", headers={"Authorization": f"bearer  {token}"}))[0] == 200
        assert (await client.get("/version", headers={"Authorization": token}))[0] == 401

    async def test_reviews_of_tokens_take_the_whole_token_too(self, client, server):
        for token in ("", server.token[:-1], server.token[:8], server.token + "x", "x" * 100_000):
            review = {"spec": {"token": token}}
            _, body = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
            assert not body["status"].get("authenticated") and body["status"]["error"]
            assert body["status"]["user"] == {}
        _, body = await client.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "token-of-jane"}})
        user = {"username": "jane", "groups": ["developers", "system:authenticated"]}
        assert body["status"] == {"authenticated": True, "user": user, "audiences": [ISSUER]}

    def test_comparisons_take_the_same_time_wherever_tokens_differ(self, monkeypatch):
        compared = []

        def compare(one, other):
            compared.append((len(one), len(other)))
            return one == other

        monkeypatch.setattr(access.hmac, "compare_digest", compare)
        authenticator = ClusterAuthenticator("a" * 40, {"b" * 40: ClusterUser("b")})
        for token in ("a" * 40, "a" * 39 + "x", "x" * 40, "a", "b" * 40):
            authenticator.user_of(token)
        # Each token is compared with all known ones, as digests of one length.
        assert compared == [(32, 32)] * 10


class TestWhatSomebodyMayDo:
    async def test_the_administrator_may_do_everything(self, client):
        assert (await client.get("/api/v1/nodes"))[0] == 200
        assert (await client.get("/debug/bindings"))[0] == 200

    async def test_others_may_do_what_rbac_grants(self, client, store):
        grant(store, "readers", rule(["get", "list"], ["pods"]), ("Group", "developers"), namespace="default")
        store.create(PODS, "default", pod())
        jane = bearer("token-of-jane")
        assert (await client.get(PODS_PATH, headers=jane))[0] == 200
        assert (await client.get(f"{PODS_PATH}/web", headers=jane))[0] == 200
        for method, path in (
            ("GET", f"{PODS_PATH}?watch=true"),
            ("GET", "/api/v1/pods"),
            ("GET", "/api/v1/namespaces/kube-system/pods"),
            ("GET", f"{PODS_PATH}/web/status"),
            ("DELETE", PODS_PATH),
            ("DELETE", f"{PODS_PATH}/web"),
            ("POST", f"{PODS_PATH}/web/binding"),
            ("POST", "/api/v1/namespaces/default/bindings"),
            ("PATCH", f"{PODS_PATH}/web"),
            ("PUT", f"{PODS_PATH}/web"),
            ("GET", "/debug/bindings"),
        ):
            status, body = await client.send(method, path, headers=jane)
            assert (status, body["reason"]) == (403, "Forbidden"), (method, path)
        assert (await client.get(PODS_PATH, headers=bearer("token-of-joe")))[0] == 403
        assert store.find(PODS, "default", "web") is not None

    async def test_the_words_of_a_refusal(self, client):
        jane = bearer("token-of-jane")
        _, body = await client.get(PODS_PATH, headers=jane)
        assert body["message"] == (
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'
        )
        _, body = await client.send("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", headers=jane)
        assert body["message"] == (
            'storageclasses.storage.k8s.io "fast" is forbidden: User "jane" cannot delete resource "storageclasses" '
            'in API group "storage.k8s.io" at the cluster scope'
        )
        _, body = await client.get("/metrics", headers=jane)
        assert body["message"] == 'forbidden: User "jane" cannot get path "/metrics"'

    async def test_a_client_certificate_names_user_and_groups(self, server, client, store, tmp_path):
        grant(store, "readers", rule(["list"], ["pods"]), ("Group", "developers"))
        for user, groups, expected in (
            ("anna", ["developers"], 200),
            ("anna", ["others"], 403),
            ("system:kube-scheduler", [], 200),
            ("root", ["system:masters"], 200),
        ):
            pair = server.authority.client_certificate(user, groups)
            assert await self.list_pods(server, pair, tmp_path) == expected, (user, groups)

    async def list_pods(self, server, pair, tmp_path):
        (tmp_path / "client.pem").write_bytes(pair.key_pem + pair.certificate_pem)
        context = ssl.create_default_context(cadata=server.authority.certificate_pem.decode())
        context.load_cert_chain(tmp_path / "client.pem")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            return (await Client(session, server.url).get("/api/v1/pods"))[0]


class TestReviews:
    async def ask(self, client, spec, path=SUBJECT_REVIEWS, **options):
        status, body = await client.post(path, {"spec": spec}, **options)
        assert status == 201, body
        return body["status"]

    @pytest.mark.parametrize(
        ("user", "groups", "expected"),
        [
            ("system:anonymous", ["system:unauthenticated"], False),
            ("anybody", ["system:authenticated"], False),
            ("berth-admin", ["system:masters", "system:authenticated"], True),
            ("prometheus", ["system:monitoring"], True),
        ],
    )
    async def test_who_may_read_metrics(self, client, user, groups, expected):
        spec = {"user": user, "groups": groups, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
        assert (await self.ask(client, spec))["allowed"] is expected

    async def test_anybody_may_ask_for_health(self, client):
        attributes = {"path": "/healthz", "verb": "get"}
        spec = {"user": "system:anonymous", "groups": ["system:unauthenticated"], "nonResourceAttributes": attributes}
        answer = await self.ask(client, spec)
        assert answer["allowed"] and "system:public-info-viewer" in answer["reason"]

    @pytest.mark.parametrize(
        ("granted", "asked", "expected"),
        [
            (rule(["get"], ["pods"]), {"verb": "get", "resource": "pods"}, True),
            (rule(["get"], ["pods"]), {"verb": "get", "resource": "pods", "subresource": "status"}, False),
            (rule(["get"], ["pods/status"]), {"verb": "get", "resource": "pods", "subresource": "status"}, True),
            (rule(["get"], ["*/status"]), {"verb": "get", "resource": "pods", "subresource": "status"}, True),
            (rule(["get"], ["*"]), {"verb": "get", "resource": "pods", "subresource": "status"}, True),
            (rule(["*"], ["pods"]), {"verb": "delete", "resource": "pods"}, True),
            (rule(["get"], ["pods"]), {"verb": "get", "resource": "pods", "group": "apps"}, False),
            (rule(["get"], ["pods"], ["*"]), {"verb": "get", "resource": "pods", "group": "apps"}, True),
            (rule(["get"], ["pods"], resourceNames=["a"]), {"verb": "get", "resource": "pods", "name": "a"}, True),
            (rule(["get"], ["pods"], resourceNames=["a"]), {"verb": "get", "resource": "pods", "name": "b"}, False),
            (rule(["get"], ["pods"], resourceNames=["a"]), {"verb": "get", "resource": "pods"}, False),
        ],
    )
    async def test_what_a_rule_grants(self, client, store, granted, asked, expected):
        grant(store, "granted", granted, ("User", "joe"))
        answer = await self.ask(client, {"user": "joe", "resourceAttributes": asked})
        assert answer["allowed"] is expected

    async def test_a_service_account_and_a_role_of_a_namespace(self, client, store):
        grant(store, "local", rule(["get"], ["pods"]), ("ServiceAccount", "default"), namespace="kube-system")
        spec = {"user": "system:serviceaccount:kube-system:default"}
        for namespace, expected in (("kube-system", True), ("default", False), ("", False)):
            asked = {"verb": "get", "resource": "pods", "namespace": namespace}
            assert (await self.ask(client, {**spec, "resourceAttributes": asked}))["allowed"] is expected

    async def test_a_role_that_is_not_there_grants_nothing(self, client, store):
        grant(store, "gone", rule(["get"], ["pods"]), ("User", "joe"))
        store.delete(CLUSTER_ROLES, "", "gone")
        spec = {"user": "joe", "resourceAttributes": {"verb": "get", "resource": "pods"}}
        assert (await self.ask(client, spec))["allowed"] is False

    async def test_ones_own_access(self, client):
        spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert (await self.ask(client, spec, path))["allowed"] is True
        assert (await self.ask(client, spec, path, headers=bearer("token-of-jane")))["allowed"] is False

    @pytest.mark.parametrize(
        ("spec", "status"),
        [
            ({}, 422),
            ({"user": "a"}, 422),
            ({"resourceAttributes": {"verb": "get"}}, 422),
            ({"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {}}, 422),
            ({"user": 5, "resourceAttributes": {}}, 400),
            ({"user": "a", "groups": "b", "resourceAttributes": {}}, 400),
            ({"user": "a", "resourceAttributes": []}, 400),
        ],
    )
    async def test_reviews_that_make_no_sense(self, client, spec, status):
        assert (await client.post(SUBJECT_REVIEWS, {"spec": spec}))[0] == status

    async def test_a_decision_looks_at_each_binding_once(self, store, server):
        for number in range(300):
            grant(store, f"r{number}", rule(["get"], ["pods"]), ("User", f"u{number}"))
        found = []
        find = store.find
        type(store).find, original = (lambda self, *key: found.append(key) or find(*key)), type(store).find
        try:
            asked = access.RbacAttributes("get", resource="pods")
            assert server._app._authorizer.decide(ClusterUser("u299"), asked)[0]
        finally:
            type(store).find = original
        assert len(found) == 1


async def test_the_ca_of_client_certificates_is_published(client, server, store):
    _, body = await client.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
    assert body["data"]["client-ca-file"] == server.authority.certificate_pem.decode()
    scheduler = ClusterUser("system:kube-scheduler")
    asked = access.RbacAttributes(
        "get", resource="configmaps", namespace="kube-system", name="extension-apiserver-authentication"
    )
    assert server._app._authorizer.decide(scheduler, asked)[0]
    assert store.find(CONFIG_MAPS, "kube-system", "extension-apiserver-authentication")


async def test_basic_credentials_are_wrong_ones(client, server):
    basic = base64.b64encode(f"berth-admin:{server.token}".encode()).decode()
    assert (await client.get("/version", headers={"Authorization": f"Basic {basic}"}))[0] == 401
