"""Tokens of ServiceAccounts as credentials, and acting as somebody else.

After upstream's conformance specs "[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount" and
"[sig-auth] ServiceAccounts should mount an API token into pods", as far as they are about tokens. The kubernetes
Service is that of "[sig-network] Services should provide secure master service".
"""

import base64
import json

import pytest

from berth_cluster.apimachinery.resource_types import SERVICE_ACCOUNTS
from berth_cluster.serving.account_tokens import ISSUER, LEAST_LIFE_S
from packages.cluster.tests.objects import PODS, Clock, make_store, pod
from packages.cluster.tests.serving.test_access import bearer, grant, rule

TOKEN_PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"
PODS_PATH = "/api/v1/namespaces/default/pods"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ROBOT = "system:serviceaccount:default:robot"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    store = make_store(clock, service_accounts=True)
    store.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    return store


async def token_of(client, **spec):
    status, body = await client.post(TOKEN_PATH, {"spec": spec})
    assert status == 201, body
    return body["status"]["token"]


async def is_known(client, token, **spec):
    _, body = await client.post(REVIEWS, {"spec": {"token": token, **spec}})
    return body["status"].get("authenticated", False)


async def test_a_token_is_a_credential_and_rbac_says_what_for(client, store):
    robot = bearer(await token_of(client))
    assert (await client.get(PODS_PATH, headers=robot))[0] == 403
    grant(store, "readers", rule(["list"], ["pods"]), ("ServiceAccount", "robot"), namespace="default")
    assert (await client.get(PODS_PATH, headers=robot))[0] == 200
    _, body = await client.post(WHO, {}, headers=robot)
    user = body["status"]["userInfo"]
    assert (user["username"], user["uid"]) == (
        ROBOT,
        store.get(SERVICE_ACCOUNTS, "default", "robot")["metadata"]["uid"],
    )
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_what_a_token_says(client, clock):
    token = await token_of(client, expirationSeconds=900)
    _, claims, _ = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    now_s = int(clock.now.timestamp())
    assert (said["iss"], said["sub"], said["aud"]) == (ISSUER, ROBOT, [ISSUER])
    assert (said["iat"], said["nbf"], said["exp"]) == (now_s, now_s, now_s + 900)
    assert said["kubernetes.io"]["serviceaccount"]["name"] == "robot"


async def test_a_token_ends_with_its_time_its_account_and_what_it_is_bound_to(client, store, clock):
    short = await token_of(client, expirationSeconds=LEAST_LIFE_S)
    lasting = await token_of(client)
    store.create(PODS, "default", pod("web", serviceAccountName="robot"))
    bound = await token_of(client, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "web"})
    assert [await is_known(client, each) for each in (short, lasting, bound)] == [True] * 3
    store.delete(PODS, "default", "web")
    clock.advance(LEAST_LIFE_S)
    assert [await is_known(client, each) for each in (short, lasting, bound)] == [False, True, False]
    store.delete(SERVICE_ACCOUNTS, "default", "robot")
    store.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "robot"}})
    assert not await is_known(client, lasting)


async def test_a_token_is_for_its_audiences(client):
    token = await token_of(client, audiences=["vault"])
    assert (await client.get(PODS_PATH, headers=bearer(token)))[0] == 401
    assert not await is_known(client, token)
    _, body = await client.post(REVIEWS, {"spec": {"token": token, "audiences": ["vault", "other"]}})
    assert (body["status"]["authenticated"], body["status"]["audiences"]) == (True, ["vault"])


async def test_tokens_that_nobody_signed(client):
    token = await token_of(client)
    head, claims, signature = token.split(".")
    other = base64.urlsafe_b64encode(b'{"sub":"system:admin"}').decode().rstrip("=")
    for wrong in (
        f"{head}.{other}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[:-4]}",
        "a.b.c",
        "..",
    ):
        assert not await is_known(client, wrong)
        assert (await client.get(PODS_PATH, headers=bearer(wrong)))[0] == 401


@pytest.mark.parametrize(
    ("spec", "status", "why"),
    [
        ({"expirationSeconds": 60}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Pod", "name": "gone"}}, 404, 'pods "gone" not found'),
        ({"boundObjectRef": {"kind": "Pod", "name": "other"}}, 400, "different serviceaccount"),
        ({"boundObjectRef": {"kind": "Pod", "name": "other", "uid": "x"}}, 409, "does not match the UID in record"),
    ],
)
async def test_requests_that_are_refused(client, store, spec, status, why):
    store.create(PODS, "default", pod("other"))
    code, body = await client.post(TOKEN_PATH, {"spec": spec})
    assert code == status and why in body["message"]


async def test_acting_as_somebody_else_is_a_right(client, store):
    grant(store, "readers", rule(["list"], ["pods"]), ("ServiceAccount", "robot"), namespace="default")
    as_robot = {"Impersonate-User": ROBOT}
    _, body = await client.post(WHO, {}, headers=as_robot)
    assert body["status"]["userInfo"]["groups"][:1] == ["system:serviceaccounts"]
    assert (await client.get(PODS_PATH, headers=as_robot))[0] == 200
    assert (await client.get("/api/v1/nodes", headers=as_robot))[0] == 403
    robot = bearer(await token_of(client))
    status, body = await client.get(PODS_PATH, headers={**robot, "Impersonate-User": "jane"})
    assert status == 403
    assert body["message"].startswith(f'users "jane" is forbidden: User "{ROBOT}" cannot impersonate resource "users"')
    assert (await client.get(PODS_PATH, headers={"Impersonate-Group": "a"}))[0] == 400


async def test_the_service_kubernetes_says_where_the_server_is(client, server):
    _, service = await client.get("/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == "10.96.0.1" and service["spec"]["ports"][0]["port"] == 443
    _, endpoints = await client.get("/api/v1/namespaces/default/endpoints/kubernetes")
    (subset,) = endpoints["subsets"]
    assert server.url == f"https://{subset['addresses'][0]['ip']}:{subset['ports'][0]['port']}"
    _, sliced = await client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
    assert (sliced["endpoints"][0]["addresses"], sliced["ports"]) == (["127.0.0.1"], subset["ports"])
    _, ca = await client.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
    assert ca["data"]["ca.crt"] == server.authority.certificate_pem.decode()
