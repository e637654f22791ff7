"""The guard in front of the page: who is let in, from where, and what every answer carries."""

import asyncio
import re

import pytest

from berth_workbench.page.access import AccessRefusal, OwnToken, Sessions
from berth_workbench.page.guard import MAX_FORM_BYTES, PageGuard

TOKEN = "right-token"
MARK = "what-only-the-template-knows"
HTML = (
    f'<head><script nonce="{MARK}" type="importmap">{{}}</script><script nonce="{MARK}">addStyle = 1</script></head>'
    f'<script nonce="{MARK}" type="module">const data = "&lt;script&gt;"</script><script>smuggled()</script>'
)


class Page:
    """An application that answers everything, behind a guard; asks like a browser."""

    def __init__(self, access=None, *, is_secure=False, hosts=()):
        self.reached = []
        self.received = []
        self.now = 0.0
        self.guard = PageGuard(
            self._answer,
            access or OwnToken(TOKEN),
            port=7600,
            script_mark=MARK,
            is_secure=is_secure,
            hosts=hosts,
            clock=lambda: self.now,
        )

    async def _answer(self, scope, receive, send):
        self.reached.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            for _ in range(scope.get("messages", 0)):
                self.received.append((await receive())["type"])
            return
        kind = b"text/html; charset=utf-8" if scope["path"] == "/" else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        half = len(HTML) // 2
        await send({"type": "http.response.body", "body": HTML[:half].encode(), "more_body": True})
        await send({"type": "http.response.body", "body": HTML[half:].encode()})

    async def ask(
        self, path="/", *, method="GET", kind="http", body=b"", messages=0, breaks_off=False, stalls=False, **headers
    ):
        headers = {"host": "127.0.0.1:7600", **headers}
        path, _, query = path.partition("?")
        scope = {
            "type": kind,
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "extensions": {"websocket.http.response": {}},
            "messages": messages,
        }
        if kind == "websocket":
            del scope["method"]
        sent = []

        async def receive():
            nonlocal body
            self.now += 6.0
            if stalls and not body:
                await asyncio.Event().wait()
            if breaks_off and not body:
                return {"type": "http.disconnect"}
            part, body = body, b"" if breaks_off or stalls else body
            kept_open = {"more_body": True} if breaks_off or stalls else {}
            return {"type": "websocket.receive" if kind == "websocket" else "http.request", "body": part, **kept_open}

        async def send(message):
            sent.append(message)

        await self.guard(scope, receive, send)
        return Answer(sent)

    async def sign_in(self):
        answer = await self.ask(f"/?token={TOKEN}")
        assert answer.status == 200
        return answer.headers["set-cookie"].partition(";")[0]


class Answer:
    def __init__(self, sent):
        self.sent = sent
        self.kind = sent[0]["type"]
        self.status = sent[0].get("status")
        self.headers = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
        self.body = b"".join(each.get("body", b"") for each in sent[1:]).decode()


# -- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/pending", "/data/nodes", "/_nicegui/3/static/vue.js", "/assets/page.css", "/x"]
)
async def test_nothing_is_shown_to_strangers(path):
    page = Page()
    for headers in (
        {},
        {"cookie": "berth-page-7600=guess"},
        {"authorization": "Bearer wrong"},
        {"accept": "text/html"},
    ):
        assert (await page.ask(path, **headers)).status == 401
    assert page.reached == []


async def test_a_websocket_is_refused_without_a_session():
    page = Page()
    answer = await page.ask("/_nicegui_ws/socket.io/", kind="websocket", origin="http://127.0.0.1:7600")
    assert answer.kind == "websocket.http.response.start" and answer.status == 401
    assert page.reached == []


async def test_a_link_with_the_token_opens_the_page():
    page = Page()
    answer = await page.ask(f"/pods/a/b?token={TOKEN}&find=x%22y")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(re.split("; ?", cookie))
    assert TOKEN not in cookie and TOKEN not in answer.body
    assert 'content="0;url=/pods/a/b?find=x%22y"' in answer.body
    name = cookie.partition(";")[0]
    assert (await page.ask("/", cookie=name)).status == 200
    socket = await page.ask("/ws", kind="websocket", cookie=name, origin="http://127.0.0.1:7600")
    assert socket.kind == "websocket.accept"


async def test_pages_of_its_own_ask_for_nothing():
    """A browser that is told of no icon asks for /favicon.ico, which a user who has not signed in is refused."""
    page = Page()
    for answer in (await page.ask("/", accept="text/html"), await page.ask(f"/?token={TOKEN}")):
        assert '<link rel="icon" href="data:,">' in answer.body
        assert re.findall(r'(?:src|href)="(?!data:)', answer.body) == []


async def test_a_link_leads_to_no_other_server():
    answer = await Page().ask(f"//evil.example/?token={TOKEN}")
    assert 'content="0;url=/evil.example/"' in answer.body


@pytest.mark.parametrize(
    ("path", "onward"),
    [
        ("/\\evil.example", "/evil.example"),
        ("\\\\evil.example", "/evil.example"),
        ("/\t/evil.example", "/%09/evil.example"),
        ("/\n\\evil.example", "/%0A%5Cevil.example"),
        ("//\\/evil.example", "/evil.example"),
        ("/ /evil.example", "/%20/evil.example"),
        ("/%5Cevil.example", "/%255Cevil.example"),
        ("javascript:alert(1)", "/javascript%3Aalert%281%29"),
        ("/pods/ä/b", "/pods/%C3%A4/b"),
        ("/\ud800", "/%3F"),
        ("/", "/"),
    ],
)
async def test_a_link_leads_to_no_other_server_however_it_is_written(path, onward):
    answer = await Page().ask(f"{path}?token={TOKEN}")
    assert f'content="0;url={onward}"' in answer.body


async def test_a_wrong_token_in_a_link_or_the_form_opens_nothing():
    page = Page()
    by_link = await page.ask("/?token=wrong")
    by_form = await page.ask("/sign-in", method="POST", body=b"token=wrong", origin="http://127.0.0.1:7600")
    for answer in (by_link, by_form):
        assert answer.status == 401 and "set-cookie" not in answer.headers
        assert "not the token" in answer.body


async def test_the_form_signs_in_and_the_button_signs_out():
    page = Page()
    form = await page.ask("/sign-in", method="POST", body=f"token={TOKEN}".encode(), origin="http://127.0.0.1:7600")
    cookie = form.headers["set-cookie"].partition(";")[0]
    assert (await page.ask("/", cookie=cookie)).status == 200
    await page.ask("/sign-out", method="POST", cookie=cookie, origin="http://127.0.0.1:7600")
    assert (await page.ask("/", cookie=cookie)).status == 401


@pytest.mark.parametrize("cookie", ["{}; berth-page-7600=set-by-another", "berth-page-7600=set-by-another; x; {}"])
async def test_a_cookie_of_the_same_name_that_another_page_has_set_locks_nobody_out(cookie):
    page = Page()
    cookies = cookie.format(await page.sign_in())
    assert (await page.ask("/", cookie=cookies)).status == 200
    await page.ask("/sign-out", method="POST", cookie=cookies, origin="http://127.0.0.1:7600")
    assert (await page.ask("/", cookie=cookies)).status == 401


async def test_a_form_that_is_too_long_or_breaks_off_opens_nothing():
    page = Page()
    filled = f"token={TOKEN}&x={'x' * MAX_FORM_BYTES}".encode()
    assert (await page.ask("/sign-in", method="POST", body=filled)).status == 401
    assert (await page.ask("/sign-in", method="POST", body=f"token={TOKEN}".encode(), breaks_off=True)).status == 401


async def test_a_form_that_is_too_long_in_coming_opens_nothing(monkeypatch):
    monkeypatch.setattr("berth_workbench.page.guard.FORM_S", 0.0)
    assert (await Page().ask("/sign-in", method="POST", body=b"token=", stalls=True)).status == 401


async def test_programs_send_the_token_in_a_header():
    page = Page()
    assert (await page.ask("/data/nodes", authorization=f"Bearer {TOKEN}")).status == 200


async def test_a_right_that_is_taken_away_ends_the_session():
    class Revocable:
        refused = None

        async def refusal(self, token):
            return self.refused

    access = Revocable()
    page = Page(access)
    cookie = await page.sign_in()
    access.refused = AccessRefusal(403, "may not")
    assert (await page.ask("/", cookie=cookie)).status == 403
    access.refused = AccessRefusal(401, "unknown")
    assert (await page.ask("/", cookie=cookie)).status == 401
    access.refused = None
    assert (await page.ask("/", cookie=cookie)).status == 401  # the session is gone


async def test_a_right_that_is_taken_away_closes_the_socket():
    class Revocable:
        asked = 0

        async def refusal(self, token):
            self.asked += 1
            return AccessRefusal(403, "may not") if self.asked > 3 else None

    page = Page(Revocable())
    cookie = await page.sign_in()
    socket = await page.ask("/ws", kind="websocket", cookie=cookie, origin="http://127.0.0.1:7600", messages=4)
    assert page.received == [*["websocket.receive"] * 3, "websocket.disconnect"]
    assert socket.kind == "websocket.accept" and socket.sent[-1] == {"type": "websocket.close", "code": 1008}


async def test_signing_out_closes_the_socket():
    page = Page()
    cookie = await page.sign_in()
    await page.ask("/sign-out", method="POST", cookie=cookie, origin="http://127.0.0.1:7600")
    socket = await page.ask("/ws", kind="websocket", cookie=cookie, origin="http://127.0.0.1:7600")
    assert socket.status == 401


# -- from where -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7600", "", "127.0.0.1.evil.example", "a@127.0.0.1", "[::1"]
)
async def test_a_host_name_that_was_made_to_point_here_is_refused(host):
    page = Page()
    cookie = await page.sign_in()
    assert (await page.ask("/", host=host, cookie=cookie)).status == 403


@pytest.mark.parametrize("host", ["localhost:7600", "127.0.0.1", "[::1]:7600", "10.1.2.3:7600", "Berth.Example.org"])
async def test_addresses_and_names_of_this_server_are_taken(host):
    page = Page(hosts=("berth.example.org",))
    cookie = await page.sign_in()
    assert (await page.ask("/", host=host, cookie=cookie)).status == 200


async def test_another_page_may_open_no_socket_and_send_no_form():
    page = Page()
    cookie = await page.sign_in()
    for origin in ("http://evil.example", "null", "https://127.0.0.1:7600", "http://127.0.0.1:7601"):
        socket = await page.ask("/ws", kind="websocket", cookie=cookie, origin=origin)
        assert socket.status == 403
        assert (await page.ask("/sign-out", method="POST", cookie=cookie, origin=origin)).status == 403
        assert (await page.ask("/x", method="POST", cookie=cookie, origin=origin)).status == 403
    assert (await page.ask("/ws", kind="websocket", cookie=cookie)).status == 403  # a browser names its page
    assert (await page.ask("/", cookie=cookie)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_has_nothing_done_and_links_may_be_followed(site):
    page = Page()
    cookie = await page.sign_in()
    for path, method in (("/data/fit", "POST"), ("/data/nodes", "GET"), ("/what-if?drain=n1", "GET")):
        for dest in ("empty", "image", "iframe"):
            mode = "navigate" if dest == "iframe" else "no-cors"
            kind = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
            assert (await page.ask(path, method=method, cookie=cookie, **kind)).status == 403
    assert not page.reached
    link = {"sec_fetch_site": site, "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert (await page.ask("/what-if?drain=n1", cookie=cookie, **link)).status == 200
    assert (await page.ask("/data/fit", method="POST", cookie=cookie, **link)).status == 403
    own = {"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:7600"}
    assert (await page.ask("/data/fit", method="POST", cookie=cookie, **own)).status == 200


async def test_what_proxies_say_reaches_nobody():
    page = Page()
    await page.ask("/", authorization=f"Bearer {TOKEN}", x_forwarded_prefix="/evil", x_forwarded_host="evil.example")
    assert not [name for name, _ in page.reached[0]["headers"] if name.startswith(b"x-forwarded")]


# -- what every answer carries ----------------------------------------------------------------------------------------


async def test_only_the_scripts_of_the_page_itself_get_the_nonce():
    page = Page()
    first, second = [await page.ask("/", authorization=f"Bearer {TOKEN}") for _ in range(2)]
    nonce = re.search(r"'nonce-([^']+)'", first.headers["content-security-policy"])[1]
    assert first.body.count(f'<script nonce="{nonce}"') == 3
    assert "<script>smuggled()" in first.body
    assert nonce not in second.body and MARK not in first.body
    assert len(first.body) == int(first.headers["content-length"])


async def test_every_answer_forbids_scripts_frames_and_other_hosts():
    page = Page()
    cookie = await page.sign_in()
    for answer in (await page.ask("/"), await page.ask("/?token=no"), await page.ask("/data/nodes", cookie=cookie)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe-eval" not in policy
        script = re.search(r"script-src ([^;]+)", policy)[1]
        assert "unsafe-inline" not in script and "http" not in script
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_over_https_the_cookie_is_sent_nowhere_else():
    page = Page(is_secure=True)
    answer = await page.ask(f"/?token={TOKEN}")
    assert answer.headers["set-cookie"].endswith("; Secure")
    assert "strict-transport-security" in answer.headers


async def test_what_is_said_of_a_token_is_text():
    class Hostile:
        async def refusal(self, token):
            return AccessRefusal(403, 'user "<script>x</script>" may not')

    answer = await Page(Hostile()).ask("/?token=x")
    assert answer.status == 403 and "&lt;script&gt;" in answer.body and "<script>x" not in answer.body


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_sessions_end_and_are_bounded():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first = sessions.begin("token")
    assert sessions.token_of(first) == "token" and sessions.token_of("other") is None
    now[0] = 12 * 3600.0
    assert sessions.token_of(first) is None
    names = [sessions.begin("token") for _ in range(1000)]
    assert len(sessions) == 256
    assert sessions.token_of(names[0]) is None and sessions.token_of(names[-1]) == "token"
