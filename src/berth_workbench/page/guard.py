"""Everything that reaches the page comes through here: an ASGI application around NiceGUI's.

In this order: the Host header has to name this server (a host name of somebody else's that was made to point here is
refused), a request that may change something or opens a WebSocket has to come from the page itself, and the user
must have signed in, by a link with the token, the form, or an Authorization header. There is no exception for static
files. Every answer carries a content security policy under which the browser loads nothing from anywhere else and runs
no script that is not part of the page.
"""

import asyncio
import contextlib
import html
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from berth_workbench.page.access import Access, AccessRefusal, Sessions

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_FORM_BYTES = 64 * 1024
FORM_S = 15.0
"""How long a form may take to arrive."""
ASK_AGAIN_S = 10.0
"""How often it is asked whether the owner of a WebSocket may still see the page."""
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class PageGuard:
    """Lets those in who may see the page."""

    __slots__ = (
        "_access", "_application", "_clock", "_cookie", "_hosts", "_is_secure", "_script_mark", "_sessions", "_title",
    )  # fmt: skip

    def __init__(
        self,
        application: Application,
        access: Access,
        *,
        port: int,
        script_mark: str,
        hosts: Collection[str] = (),
        is_secure: bool = False,
        title: str = "Berth",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hosts` are names of this server, besides localhost and addresses.

        Scripts of the application that have the `script_mark` as their nonce are given the nonce of the answer.
        """
        self._clock = clock
        self._application = application
        self._access = access
        self._script_mark = script_mark.encode()
        self._sessions = Sessions(clock)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._is_secure = is_secure
        self._cookie = f"berth-page-{port}"  # cookies are shared by all ports of a host
        self._title = title

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        headers = _Headers(scope["headers"])
        answering = _Answering(scope, send, self._script_mark, is_secure=self._is_secure)
        refusal = self._foreign(scope, headers)
        if refusal is not None:
            await answering.refuse(refusal)
            return
        # What a proxy would say of the address is taken from nobody: NiceGUI would put it into the page.
        scope["headers"] = [pair for pair in scope["headers"] if not pair[0].startswith(b"x-forwarded-")]
        if scope["type"] == "http" and await self._signs_in(scope, headers, receive, answering):
            return
        refusal = await self._refusal(headers)
        if refusal is not None:
            await self._turn_away(scope, headers, answering, refusal)
            return
        if scope["type"] == "websocket":
            receive = self._while_allowed(headers, receive, answering)
        await self._application(scope, receive, answering.send)

    # -- where it comes from -----------------------------------------------------------------------------------------

    def _foreign(self, scope: Scope, headers: "_Headers") -> AccessRefusal | None:
        """Why a request is not for this server, or does not come from its page."""
        host = headers.get("host")
        name = _host_name(host)
        if name is None or not (name == "localhost" or name in self._hosts or _is_address(name)):
            return AccessRefusal(
                403, f"this is not {host!r}: ask for localhost, for an address, or name it with --host-name"
            )
        origin = headers.get("origin")
        is_writing = scope["type"] == "websocket" or scope["method"] not in _NO_BODY
        if is_writing and origin and origin.lower() != f"{'https' if self._is_secure else 'http'}://{host}".lower():
            return AccessRefusal(403, "this was asked from another page")
        if scope["type"] == "websocket" and not origin and not headers.get("authorization"):
            return AccessRefusal(403, "a browser says from which page it comes")
        return None

    # -- who it is ---------------------------------------------------------------------------------------------------

    async def _refusal(self, headers: "_Headers") -> AccessRefusal | None:
        """Why the user may not see the page; None for those who may."""
        scheme, _, bearer = headers.get("authorization").partition(" ")
        if scheme.lower() == "bearer" and bearer.strip():
            return await self._access.refusal(bearer.strip())
        for name in headers.cookies(self._cookie):
            token = self._sessions.token_of(name)
            if token is None:
                continue
            refusal = await self._access.refusal(token)
            if refusal is not None and refusal.status == 401:
                self._sessions.end(name)
            return refusal
        return AccessRefusal(401, "sign in first")

    def _while_allowed(self, headers: "_Headers", receive: Receive, answering: "_Answering") -> Receive:
        """Receive from a WebSocket for as long as its owner may see the page; browsers send something all the time."""
        asked_at = self._clock()

        async def allowed() -> Message:
            nonlocal asked_at
            message = await receive()
            if message["type"] == "websocket.receive" and self._clock() - asked_at >= ASK_AGAIN_S:
                asked_at = self._clock()
                if await self._refusal(headers) is not None:
                    await answering.send({"type": "websocket.close", "code": 1008})
                    return {"type": "websocket.disconnect", "code": 1008}
            return message

        return allowed

    async def _signs_in(self, scope: Scope, headers: "_Headers", receive: Receive, answering: "_Answering") -> bool:
        """Answer those who come with a token, by a link or the form, or who leave."""
        if scope["path"] == SIGN_OUT and scope["method"] == "POST":
            for name in headers.cookies(self._cookie):
                self._sessions.end(name)
            await answering.page(200, self._sign_in_page("You have signed out."), cookie=self._cookie_line("", 0))
            return True
        if scope["path"] == SIGN_IN and scope["method"] == "POST":
            form = parse_qs(await _body(receive), keep_blank_values=True)
            token, target = form.get("token", [""])[0].strip(), "/"
        else:
            query = parse_qs(scope["query_string"].decode("latin-1"))
            if scope["method"] != "GET" or "token" not in query:
                return False
            token, target = query.pop("token")[0], scope["path"]
            # Browsers read a backslash as a slash and pass over tabs and line ends, so that none of them may be left as
            # it is, and there must be one slash at the beginning: two are followed by the name of another server.
            target = f"/{quote(target.lstrip('/' + chr(92)), errors='replace')}" + (
                f"?{urlencode(query, doseq=True)}" if query else ""
            )
        refusal = await self._access.refusal(token)
        if refusal is not None:
            await answering.page(refusal.status, self._sign_in_page(refusal.message))
            return True
        # A page that goes on by itself, and not a redirect: a cookie that is SameSite=Strict would not be sent along
        # where the link was followed from another site.
        cookie = self._cookie_line(self._sessions.begin(token), None)
        onward = f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
        await answering.page(200, _page(self._title, "<p>Signed in.</p>", onward), cookie=cookie)
        return True

    async def _turn_away(
        self, scope: Scope, headers: "_Headers", answering: "_Answering", refusal: AccessRefusal
    ) -> None:
        """Show people a form; everything else gets a status."""
        if scope["type"] == "http" and "text/html" in headers.get("accept") and refusal.status in (401, 403):
            said = "" if not list(headers.cookies(self._cookie)) else refusal.message
            await answering.page(refusal.status, self._sign_in_page(said))
            return
        await answering.refuse(refusal)

    def _sign_in_page(self, said: str) -> bytes:
        told = f'<p role="alert">{html.escape(said)}</p>' if said else ""
        form = (
            f'{told}<form method="post" action="{SIGN_IN}"><label for="token">Token</label>'
            '<input id="token" name="token" type="password" autocomplete="off" required autofocus>'
            "<button>Sign in</button></form>"
            "<p>The command that serves this page has printed a link with its token. Where the page asks the cluster, "
            "a token of the cluster is needed: <code>kubectl create token NAME</code>.</p>"
        )
        return _page(f"Sign in to {self._title}", form)

    def _cookie_line(self, value: str, max_age_s: int | None) -> str:
        ends = "" if max_age_s is None else f"; Max-Age={max_age_s}"
        secure = "; Secure" if self._is_secure else ""
        return f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"


class _Headers:
    """A request's headers."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = list(pairs)

    def get(self, name: str) -> str:
        """The first header of this name; empty where there is none."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._pairs if key == wanted), "")

    def cookies(self, name: str) -> Iterable[str]:
        """The cookies of this name."""
        for key, value in self._pairs:
            if key == b"cookie":
                try:
                    found = SimpleCookie(value.decode("latin-1")).get(name)
                except CookieError:
                    continue
                if found is not None and found.value:
                    yield found.value


class _Answering:
    """Sends answers with the headers that every answer has."""

    __slots__ = ("_begun", "_is_secure", "_nonce", "_pending", "_scope", "_script_mark", "_send")

    def __init__(self, scope: Scope, send: Send, script_mark: bytes, *, is_secure: bool) -> None:
        self._scope = scope
        self._send = send
        self._script_mark = script_mark
        self._is_secure = is_secure
        self._nonce = secrets.token_urlsafe(16)
        self._begun: Message | None = None
        self._pending = b""

    async def refuse(self, refusal: AccessRefusal) -> None:
        """Answer with a status and one line."""
        if self._scope["type"] == "websocket":
            if "websocket.http.response" not in self._scope.get("extensions", {}):
                await self._send({"type": "websocket.close", "code": 1008})
                return
            prefix = "websocket.http.response"
        else:
            prefix = "http.response"
        body = f"{refusal.message}\n".encode()
        await self._answer(prefix, refusal.status, body, b"text/plain; charset=utf-8")

    async def page(self, status: int, body: bytes, *, cookie: str = "") -> None:
        """Answer with a page of our own, which has no scripts."""
        extra = [(b"set-cookie", cookie.encode())] if cookie else []
        await self._answer("http.response", status, body, b"text/html; charset=utf-8", extra)

    async def _answer(
        self, prefix: str, status: int, body: bytes, kind: bytes, extra: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *self._guarding(), *extra]
        headers += [(b"cache-control", b"no-store")]
        if status == 401:
            headers += [(b"www-authenticate", b'Bearer realm="berth"')]
        await self._send({"type": f"{prefix}.start", "status": status, "headers": headers})
        await self._send({"type": f"{prefix}.body", "body": body})

    async def send(self, message: Message) -> None:
        """Send what the application answers. A page is held until it is whole, so that its scripts get the nonce."""
        if message["type"] == "http.response.start":
            kept = [pair for pair in message["headers"] if pair[0] not in (b"server", b"content-security-policy")]
            message = {**message, "headers": [*kept, *self._guarding()]}
            if any(key == b"content-type" and value.startswith(b"text/html") for key, value in kept):
                self._begun = message
                return
        elif message["type"] == "http.response.body" and self._begun is not None:
            self._pending += message.get("body", b"")
            if message.get("more_body"):
                return
            begun, body = self._begun, self._with_nonce(self._pending)
            self._begun, self._pending = None, b""
            begun["headers"] = [pair for pair in begun["headers"] if pair[0] != b"content-length"]
            begun["headers"] += [(b"content-length", str(len(body)).encode())]
            await self._send(begun)
            message = {"type": "http.response.body", "body": body}
        await self._send(message)

    def _with_nonce(self, body: bytes) -> bytes:
        return body.replace(self._script_mark, self._nonce.encode())

    def _guarding(self) -> list[tuple[bytes, bytes]]:
        policy = (
            "default-src 'none'; "
            f"script-src 'self' 'nonce-{self._nonce}'; "
            "style-src 'self' 'unsafe-inline'; "  # Vue and Quasar set styles on elements
            "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
        headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]
        return [*headers, (b"strict-transport-security", b"max-age=31536000")] if self._is_secure else headers


def _host_name(host: str) -> str | None:
    """The name or address in a Host header; None for one that cannot be read."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is no port
        return parts.hostname if parts.netloc == host and "@" not in host else None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _body(receive: Receive) -> str:
    """A form's body; empty where it is too long to be one, or too long in coming."""
    body: bytes = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FORM_S):
            while len(body) <= MAX_FORM_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect":
                    break
                body += message.get("body", b"")
                if not message.get("more_body"):
                    return body.decode("latin-1")
    return ""


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 16vh auto 0; padding: 0 1rem;
  color: light-dark(#1b2430, #e6eaf0); background: light-dark(#f6f7f9, #12161c); }
h1 { font-size: 1.375rem; font-weight: 600; }
label { display: block; font-weight: 600; margin-bottom: .25rem; }
input { box-sizing: border-box; width: 100%; font: inherit; padding: .5rem .625rem; border-radius: 6px;
  border: 1px solid light-dark(#7b8794, #6b7684); color: inherit; background: light-dark(#fff, #1a2029); }
button { font: inherit; font-weight: 600; margin-top: .75rem; padding: .5rem 1rem; border: 0; border-radius: 6px;
  color: #fff; background: #1f5fbf; cursor: pointer; }
input:focus-visible, button:focus-visible { outline: 3px solid light-dark(#1f5fbf, #8ab4f8); outline-offset: 2px; }
p { color: light-dark(#48525e, #aeb7c2); } p[role=alert] { color: light-dark(#a3211d, #ff9c94); font-weight: 600; }
"""


def _page(title: str, content: str, head: str = "") -> bytes:
    told = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{told}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<link rel="icon" href="data:,">{head}</head>'
        f"<body><main><h1>{told}</h1>{content}</main></body></html>"
    ).encode()
