"""Nobody grants what they may not do themselves, by a role or by a binding.

The requests were put to a kube-apiserver 1.36 as well, and these are its answers.
"""

import pytest

from berth_cluster.serving.access import ClusterUser
from berth_cluster.serving.server import ApiServer
from packages.cluster.tests.serving.test_access import bearer, rule

GROUP = "rbac.authorization.k8s.io"
ROOT = f"/apis/{GROUP}/v1"
EVERYWHERE = {"roles": f"{ROOT}/clusterroles", "bindings": f"{ROOT}/clusterrolebindings"}
HERE = {"roles": f"{ROOT}/namespaces/default/roles", "bindings": f"{ROOT}/namespaces/default/rolebindings"}
WRITE = ["get", "create", "update", "patch"]
JANE, DORA, ROOT_USER = ({"headers": bearer(f"token-of-{name}")} for name in ("jane", "dora", "root"))
NOT_HELD = 'is forbidden: user "{}" (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n'
OF_JANE = NOT_HELD.format("jane", '"system:authenticated"')
OF_DORA = NOT_HELD.format("dora", '"devs" "system:authenticated"')


@pytest.fixture
async def server(store, tmp_path):
    users = {"jane": ClusterUser("jane"), "dora": ClusterUser("dora", ("devs",))}
    users["root"] = ClusterUser("root", ("system:masters",))
    server = ApiServer(store, tmp_path / "cluster", users={f"token-of-{name}": user for name, user in users.items()})
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(client):
    kinds = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
    for name, *rules in (
        ("writer", rule(WRITE, kinds, [GROUP])),
        ("pods", rule(["get", "list"], ["pods"])),
        ("all", rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ):
        assert (await client.post(EVERYWHERE["roles"], role(name, *rules)))[0] == 201
    for name, subjects in (("writer", ("jane", "dora")), ("pods", ("dora",))):
        assert (await client.post(EVERYWHERE["bindings"], binding(name, name, *subjects)))[0] == 201
    return client


def role(name, *rules, **fields):
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


def binding(name, to, *subjects, kind="ClusterRole"):
    reference = {"apiGroup": GROUP, "kind": kind, "name": to}
    return {
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": one} for one in subjects],
    }


async def test_who_may_create_bindings_cannot_bind_everything_to_himself(client):
    for where, plural in ((EVERYWHERE, "clusterrolebindings"), (HERE, "rolebindings")):
        status, body = await client.post(where["bindings"], binding("mine", "all", "jane"), **JANE)
        assert (status, body["reason"]) == (403, "Forbidden")
        assert body["message"] == (
            f'{plural}.{GROUP} "mine" {OF_JANE}'
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        )
        assert body["details"] == {"name": "mine", "group": GROUP, "kind": plural}
    assert (await client.post(EVERYWHERE["bindings"], binding("mine", "all", "jane"), **ROOT_USER))[0] == 201


async def test_what_one_has_one_may_pass_on(client):
    assert (await client.post(HERE["bindings"], binding("a", "pods", "jane"), **DORA))[0] == 201
    assert (await client.post(HERE["roles"], role("a", rule(["get"], ["pods"], resourceNames=["x"])), **DORA))[0] == 201
    status, body = await client.post(
        EVERYWHERE["roles"], role("a", rule(["get", "watch"], ["pods", "pods/log"])), **DORA
    )
    assert (status, body["message"]) == (
        403,
        (
            f'clusterroles.{GROUP} "a" {OF_DORA}'
            '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}\n'
            '{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "watch"]}'
        ),
    )


async def test_changes_are_held_to_the_same(client):
    assert (await client.post(HERE["roles"], role("a", rule(["get"], ["pods"]))))[0] == 201
    more = role("a", rule(["get", "delete"], ["pods"], resourceNames=["x"]))
    lacking = '{{APIGroups:[""], Resources:["pods"], ResourceNames:["x"], Verbs:[{}]}}'
    for user, said in (
        (DORA, OF_DORA + lacking.format('"delete"')),
        (JANE, OF_JANE + lacking.format('"get" "delete"')),
    ):
        status, body = await client.send("PUT", f"{HERE['roles']}/a", more, **user)
        assert (status, body["message"]) == (403, f'roles.{GROUP} "a" {said}')
    for change, expected in (({"labels": {"a": "b"}}, 403), ({"finalizers": ["example.com/kept"]}, 200)):
        headers = {**JANE["headers"], "Content-Type": "application/merge-patch+json"}
        status, _ = await client.send("PATCH", f"{HERE['roles']}/a", {"metadata": change}, headers=headers)
        assert status == expected  # what the garbage collector changes grants nothing


async def test_what_is_applied_is_held_to_the_same(client):
    headers = {**JANE["headers"], "Content-Type": "application/apply-patch+yaml"}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", **binding("a", "all", "jane")}
    path = f"{HERE['bindings']}/a?fieldManager=jane&force=true"
    assert (await client.send("PATCH", path, body, headers=headers))[0] == 403
    assert (await client.post(HERE["bindings"], binding("a", "all", "joe")))[0] == 201
    assert (await client.send("PATCH", path, body, headers=headers))[0] == 403


async def test_the_verbs_bind_and_escalate_are_exceptions(client):
    bind = rule(["bind"], ["clusterroles"], [GROUP], resourceNames=["all"])
    for where, name, granted in (
        (EVERYWHERE, "bind", bind),
        (HERE, "escalate", rule(["escalate"], ["roles"], [GROUP])),
    ):
        await client.post(where["roles"], role(name, granted))
        kind = "Role" if where is HERE else "ClusterRole"
        await client.post(where["bindings"], binding(name, name, "jane", kind=kind))
    assert (await client.post(EVERYWHERE["bindings"], binding("a", "writer", "joe"), **DORA))[0] == 201
    assert (await client.post(EVERYWHERE["bindings"], binding("b", "pods", "joe"), **JANE))[0] == 403
    assert (await client.post(HERE["bindings"], binding("a", "all", "joe"), **JANE))[0] == 201
    assert (await client.post(HERE["roles"], role("a", rule(["*"], ["*"])), **JANE))[0] == 201
    assert (await client.post(EVERYWHERE["roles"], role("a", rule(["*"], ["*"])), **JANE))[0] == 403


@pytest.mark.parametrize(
    ("where", "obj", "status", "message"),
    [
        (HERE, binding("a", "none"), 404, f'rolebindings.{GROUP} "none" not found'),
        (HERE, binding("a", "none", kind="Role"), 404, f'rolebindings.{GROUP} "none" not found'),
        (EVERYWHERE, binding("a", "none", kind="Role"), 400, "Namespace parameter required."),
        (HERE, binding("a", "none", kind="Thing"), 500, 'unsupported role reference kind: "Thing"'),
    ],
)
async def test_bindings_to_no_role(client, where, obj, status, message):
    found, body = await client.post(where["bindings"], obj, **JANE)
    assert (found, body["message"]) == (status, message)


async def test_aggregated_roles_gather_anything(client):
    gathered = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    status, body = await client.post(EVERYWHERE["roles"], role("a", **gathered), **JANE)
    why = "must have cluster-admin privileges to use the aggregationRule"
    assert (status, body["message"]) == (403, f'clusterroles.{GROUP} "a" is forbidden: {why}')
    unnamed = {"metadata": {"generateName": "a-"}, "rules": [rule(["get"], ["secrets"])]}
    status, body = await client.post(HERE["roles"], unnamed, **JANE)
    assert status == 403 and body["message"].startswith(f"roles.{GROUP} {OF_JANE}")
    await client.post(EVERYWHERE["bindings"], binding("a", "all", "jane"))
    assert (await client.post(EVERYWHERE["roles"], role("a", **gathered), **JANE))[0] == 201


async def test_rules_that_come_to_too_much_are_refused_soon(client):
    many = [f"x{number}" for number in range(1000)]
    status, body = await client.post(HERE["roles"], role("a", rule(many, many, many)), **JANE)
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
