"""Everything that reaches the page comes through here: an ASGI application around NiceGUI's.

In this order: the Host header has to name this server (a host name of somebody else's that was made to point here is
refused), a request has to come from the page itself, unless somebody follows a link, and the user must have signed in,
by a link with the token, the form, or an Authorization header. There is no exception for static files. Every answer
carries a content security policy under which the browser loads nothing from anywhere else and runs no script that is
not part of the page.
"""

import asyncio
import html
import ipaddress
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import aclosing
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders, QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection, Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from berth.serving.foreign_pages import is_link_followed, is_sent_by_another_page
from berth_workbench.page.access import Access, AccessRefusal, Sessions

MAX_FORM_BYTES = 64 * 1024
FORM_S = 15.0
"""How long a form may take to arrive."""
ASK_AGAIN_S = 10.0
"""How often it is asked whether the owner of a WebSocket may still see the page."""
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"


class PageGuard:
    """Lets in users who may see the page."""

    __slots__ = (
        "_access", "_application", "_clock", "_cookie", "_hosts", "_is_secure", "_script_mark", "_sessions", "_title",
    )  # fmt: skip

    def __init__(
        self,
        application: ASGIApp,
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
        asked = HTTPConnection(scope)
        answering = _Answering(scope, receive, send, self._script_mark, is_secure=self._is_secure)
        refusal = self._foreign(asked)
        if refusal is not None:
            await answering.refuse(refusal)
            return
        # What a proxy would say of the address is taken from nobody: NiceGUI would put it into the page.
        scope["headers"] = [pair for pair in scope["headers"] if not pair[0].startswith(b"x-forwarded-")]
        if scope["type"] == "http" and await self._signs_in(Request(scope, receive), answering):
            return
        refusal = await self._refusal(asked)
        if refusal is not None:
            await self._turn_away(asked, answering, refusal)
            return
        if scope["type"] == "websocket":
            receive = self._while_allowed(asked, receive, answering)
        await self._application(scope, receive, answering.send)

    # -- where it comes from -----------------------------------------------------------------------------------------

    def _foreign(self, asked: HTTPConnection) -> AccessRefusal | None:
        """Why a request is not for this server, or does not come from its page.

        Starlette's TrustedHostMiddleware knows names only, and this server is asked for by its addresses, too.
        """
        host = asked.headers.get("host", "")
        name = _host_name(host)
        if name is None or not (name == "localhost" or name in self._hosts or _is_address(name)):
            return AccessRefusal(
                403, f"this is not {host!r}: ask for localhost, for an address, or name it with --host-name"
            )
        headers, is_socket = asked.headers, asked["type"] == "websocket"
        if is_sent_by_another_page(headers, f"{'https' if self._is_secure else 'http'}://{host}"):
            if is_socket or not is_link_followed(headers, asked["method"]):
                return AccessRefusal(403, "this was asked from another page")
        elif is_socket and not headers.get("origin") and not headers.get("authorization"):
            return AccessRefusal(403, "a browser says from which page it comes")
        return None

    # -- who it is ---------------------------------------------------------------------------------------------------

    async def _refusal(self, asked: HTTPConnection) -> AccessRefusal | None:
        """Return why the user may not see the page; None if they may."""
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and bearer.strip():
            return await self._access.refusal(bearer.strip())
        for name in self._session_names(asked):
            token = self._sessions.token_of(name)
            if token is None:
                continue
            refusal = await self._access.refusal(token)
            if refusal is not None and refusal.status == 401:
                self._sessions.end(name)
            return refusal
        return AccessRefusal(401, "sign in first")

    def _session_names(self, asked: HTTPConnection) -> list[str]:
        """What the cookies of the page's name say: another page of this host may have set one beside it."""
        cookies = (part for header in asked.headers.getlist("cookie") for part in header.split(";"))
        return [value for part in cookies if (value := cookie_parser(part).get(self._cookie))]

    def _while_allowed(self, asked: HTTPConnection, receive: Receive, answering: "_Answering") -> Receive:
        """Receive from a WebSocket for as long as its owner may see the page; browsers send something all the time."""
        asked_at = self._clock()

        async def allowed() -> Message:
            nonlocal asked_at
            message = await receive()
            if message["type"] == "websocket.receive" and self._clock() - asked_at >= ASK_AGAIN_S:
                asked_at = self._clock()
                if await self._refusal(asked) is not None:
                    await answering.send({"type": "websocket.close", "code": 1008})
                    return {"type": "websocket.disconnect", "code": 1008}
            return message

        return allowed

    async def _signs_in(self, request: Request, answering: "_Answering") -> bool:
        """Answer those who come with a token, by a link or the form, or who leave."""
        path, query, target = request["path"], request.query_params, "/"
        if (path, request.method) == (SIGN_OUT, "POST"):
            for name in self._session_names(request):
                self._sessions.end(name)
            await answering.answer(self._with_cookie(self._sign_in_page(200, "You have signed out."), "", 0))
            return True
        if (path, request.method) == (SIGN_IN, "POST"):
            token = (await _form(request)).get("token", "").strip()
        elif request.method == "GET" and query.get("token"):
            token, others = query["token"], [pair for pair in query.multi_items() if pair[0] != "token"]
            # Browsers read a backslash as a slash and pass over tabs and line ends, so that none of them may be left as
            # it is, and there must be one slash at the beginning: two are followed by the name of another server.
            target = f"/{quote(path.lstrip('/' + chr(92)), errors='replace')}{'?' if others else ''}{urlencode(others)}"
        else:
            return False
        refusal = await self._access.refusal(token)
        if refusal is not None:
            await answering.answer(self._sign_in_page(refusal.status, refusal.message))
            return True
        # A page that goes on by itself, and not a redirect: a cookie that is SameSite=Strict would not be sent along
        # where the link was followed from another site.
        onward = f'<meta http-equiv="refresh" content="0;url={html.escape(target)}">'
        signed_in = _page(200, self._title, "<p>Signed in.</p>", onward)
        await answering.answer(self._with_cookie(signed_in, self._sessions.begin(token), None))
        return True

    async def _turn_away(self, asked: HTTPConnection, answering: "_Answering", refusal: AccessRefusal) -> None:
        """Show people a form; everything else gets a status."""
        is_read = asked["type"] == "http" and "text/html" in asked.headers.get("accept", "")
        if is_read and refusal.status in (401, 403):
            said = refusal.message if self._session_names(asked) else ""
            await answering.answer(self._sign_in_page(refusal.status, said))
        else:
            await answering.refuse(refusal)

    def _sign_in_page(self, status: int, said: str) -> Response:
        told = f'<p role="alert">{html.escape(said)}</p>' if said else ""
        form = (
            f'{told}<form method="post" action="{SIGN_IN}"><label for="token">Token</label>'
            '<input id="token" name="token" type="password" autocomplete="off" required autofocus>'
            "<button>Sign in</button></form>"
            "<p>The command that serves this page has printed a link with its token. Where the page asks the cluster, "
            "a token of the cluster is needed: <code>kubectl create token NAME</code>.</p>"
        )
        return _page(status, f"Sign in to {self._title}", form)

    def _with_cookie(self, response: Response, value: str, max_age_s: int | None) -> Response:
        """Keep a session's name in the browser, and nothing else.

        Starlette's own sessions keep in the cookie what was signed in with, and nobody can end them before their time.
        """
        response.set_cookie(self._cookie, value, max_age_s, secure=self._is_secure, httponly=True, samesite="strict")
        return response


class _Answering:
    """Sends answers with the headers that every answer has."""

    __slots__ = ("_begun", "_is_secure", "_nonce", "_pending", "_receive", "_scope", "_script_mark", "_send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, script_mark: bytes, *, is_secure: bool) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._script_mark = script_mark
        self._is_secure = is_secure
        self._nonce = secrets.token_urlsafe(16)
        self._begun: Message | None = None
        self._pending = b""

    async def refuse(self, refusal: AccessRefusal) -> None:
        """Answer with a status and one line."""
        if self._scope["type"] == "websocket" and "websocket.http.response" not in self._scope.get("extensions", {}):
            await WebSocketClose(1008)(self._scope, self._receive, self._send)
        else:
            await self.answer(PlainTextResponse(f"{refusal.message}\n", refusal.status))

    async def answer(self, response: Response) -> None:
        """Answer in the guard's own name."""
        response.headers["cache-control"] = "no-store"
        if response.status_code == 401:
            response.headers["www-authenticate"] = 'Bearer realm="berth"'
        await response(self._scope, self._receive, self.send)

    async def send(self, message: Message) -> None:
        """Send what is answered. A page is held until it is whole, so that its scripts get the nonce."""
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            del headers["server"]
            headers.update(self._guarding())
            if message["type"] == "http.response.start" and headers.get("content-type", "").startswith("text/html"):
                self._begun = message
                return
        elif message["type"] == "http.response.body" and self._begun is not None:
            self._pending += message.get("body", b"")
            if message.get("more_body"):
                return
            begun, body = self._begun, self._pending.replace(self._script_mark, self._nonce.encode())
            self._begun, self._pending = None, b""
            MutableHeaders(scope=begun)["content-length"] = str(len(body))
            await self._send(begun)
            message = {"type": "http.response.body", "body": body}
        await self._send(message)

    def _guarding(self) -> dict[str, str]:
        policy = (
            "default-src 'none'; "
            f"script-src 'self' 'nonce-{self._nonce}'; "
            "style-src 'self' 'unsafe-inline'; "  # Vue and Quasar set styles on elements
            "img-src 'self' data:; font-src 'self'; connect-src 'self'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
        headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }
        return {**headers, "strict-transport-security": "max-age=31536000"} if self._is_secure else headers


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


async def _form(request: Request) -> QueryParams:
    """A form's fields; none where it is too long to be one, or too long in coming.

    `Request.form` bounds each field, but neither the whole nor the time.
    """
    body = b""
    try:
        async with asyncio.timeout(FORM_S), aclosing(request.stream()) as parts:
            async for part in parts:
                body += part
                if len(body) > MAX_FORM_BYTES:
                    return QueryParams()
    except (TimeoutError, ClientDisconnect):
        return QueryParams()
    return QueryParams(body)


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


def _page(status: int, title: str, content: str, head: str = "") -> Response:
    """A page of our own, which has no scripts."""
    told = html.escape(title)
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{told}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<link rel="icon" href="data:,">{head}</head>'
        f"<body><main><h1>{told}</h1>{content}</main></body></html>",
        status,
    )
