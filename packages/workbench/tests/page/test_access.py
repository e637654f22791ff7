"""Whom the page lets in: the holder of its own token, or whom the cluster lets read the scheduler's endpoints."""

import json

from berth.api.errors import ApiError
from berth_workbench.page.access import OwnToken, ReviewedTokens


class ApiServer:
    """Answers TokenReviews and SubjectAccessReviews; counts them."""

    def __init__(self, users, allowed):
        self.users, self.allowed, self.asked = users, allowed, []
        self.is_down = False

    async def create(self, resource, namespace, body):
        if self.is_down:
            raise ApiError(500, "InternalError", "no")
        asked = json.loads(body)
        self.asked.append(resource.kind)
        if resource.kind == "TokenReview":
            name = self.users.get(asked["spec"]["token"])
            status = {"authenticated": True, "user": {"username": name}} if name else {"authenticated": False}
        else:
            spec = asked["spec"]
            assert spec["nonResourceAttributes"] == {"path": "/debug/nodes", "verb": "get"}
            assert "system:authenticated" in spec["groups"]
            status = {"allowed": spec["user"] in self.allowed}
        return json.dumps({"status": status}).encode()


async def test_the_own_token_is_random_and_nothing_else_is_taken():
    access = OwnToken()
    assert await access.refusal(access.token) is None
    assert len(access.token) >= 43 and access.token != OwnToken().token
    for wrong in ("", access.token[:-1], access.token + "x", "\udcff"):
        assert (await access.refusal(wrong)).status == 401


async def test_the_cluster_says_who_may():
    server = ApiServer({"a": "ada", "b": "bob"}, allowed={"ada"})
    access = ReviewedTokens(server)
    assert await access.refusal("a") is None
    refusal = await access.refusal("b")
    assert refusal.status == 403 and 'user "bob"' in refusal.message
    assert (await access.refusal("c")).status == 401
    assert (await access.refusal("")).status == 401
    assert (await access.refusal("x" * 20_000)).status == 401
    assert server.asked.count("TokenReview") == 3


async def test_answers_are_kept_for_seconds_only():
    now = [0.0]
    server = ApiServer({"a": "ada"}, allowed={"ada"})
    access = ReviewedTokens(server, clock=lambda: now[0])
    for _ in range(5):
        assert await access.refusal("a") is None
    assert server.asked == ["TokenReview", "SubjectAccessReview"]
    server.users.clear()
    now[0] = 11.0
    assert (await access.refusal("a")).status == 401


async def test_nobody_is_let_in_while_the_cluster_cannot_say():
    server = ApiServer({"a": "ada"}, allowed={"ada"})
    server.is_down = True
    assert (await ReviewedTokens(server).refusal("a")).status == 503
