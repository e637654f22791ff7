"""Who may see the page: a user who holds its token, or whom the cluster lets read what the scheduler serves.

On loopback a random token is made at the start and printed as a link, as Jupyter does. Beyond loopback, with a
kubeconfig, people sign in with a bearer token of the cluster's: a TokenReview says whose it is, and a
SubjectAccessReview whether they may read the scheduler's `/debug/nodes`, from which the page is made. Both answers are
asked for again while a session lasts, so that a right which is taken away counts within seconds.
"""

import hashlib
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from berth.kube.transport import Transport
from berth.runtime.serving.authentication import AUTHENTICATED_GROUP, MAX_TOKEN_CHARACTERS
from berth.runtime.serving.authorization import PathAuthorizer
from berth.runtime.serving.options import AuthorizationOptions
from berth.runtime.serving.reviews import RequestUser, ReviewError, Reviews, TooManyReviews, review_token

READ_PATH = "/debug/nodes"
TOKEN_TTL_S = 10.0
MAX_SESSIONS = 256
SESSION_S = 12 * 3600.0

_log = logging.getLogger("berth_workbench.page")


class AccessRefusal(NamedTuple):
    """Why a token is not good enough."""

    status: int
    message: str


class Access(Protocol):
    """Says what a token is worth."""

    async def refusal(self, token: str) -> AccessRefusal | None:
        """None if a user who holds the token may see the page."""


class OwnToken:
    """One token, made at the start."""

    __slots__ = ("_digest", "token")

    def __init__(self, token: str = "") -> None:
        """By default the token is random: 256 bits."""
        self.token = token or secrets.token_urlsafe(32)
        self._digest = _digest(self.token)

    async def refusal(self, token: str) -> AccessRefusal | None:
        """Compare in constant time."""
        if hmac.compare_digest(_digest(token), self._digest):
            return None
        return AccessRefusal(401, "this is not the token that the page was started with")


class _NoUser(msgspec.Struct, frozen=True):
    """The answer for a token that belongs to nobody, which is cached too."""


class ReviewedTokens:
    """The cluster's tokens, as its API server judges them."""

    __slots__ = ("_authorizer", "_tokens", "_transport")

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Make it inside the event loop."""
        self._transport = transport
        self._tokens: Reviews[RequestUser | _NoUser] = Reviews(lambda _user: TOKEN_TTL_S, clock=clock)
        self._authorizer = PathAuthorizer(AuthorizationOptions(always_allow_paths=()), transport, clock=clock)

    async def refusal(self, token: str) -> AccessRefusal | None:
        """Ask whose the token is, and whether they may read what the page shows."""
        if not token or len(token) > MAX_TOKEN_CHARACTERS:
            return AccessRefusal(401, "a token of this cluster is needed")

        async def ask() -> RequestUser | _NoUser:
            return await review_token(self._transport, token) or _NoUser()

        try:
            user = await self._tokens.answer(_digest(token), ask)
            if isinstance(user, _NoUser):
                return AccessRefusal(401, "the cluster does not know this token")
            known = msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED_GROUP))
            verdict = await self._authorizer.verdict(known, "get", READ_PATH)
        except TooManyReviews:
            return AccessRefusal(429, "too many people sign in at once, please try again")
        except ReviewError as error:
            _log.warning("whether somebody may see the page cannot be said, and is refused: %s", error)
            return AccessRefusal(503, "the cluster cannot be asked whether you may see this")
        if verdict.is_allowed:
            return None
        return AccessRefusal(
            403, f'user "{user.name}" may not get the path "{READ_PATH}", from which this page is made'
        )


class Sessions:
    """Who has signed in, by the random name that their browser keeps. Bounded; each ends after half a day."""

    __slots__ = ("_clock", "_tokens")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: OrderedDict[bytes, tuple[float, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def begin(self, token: str) -> str:
        """Begin a session for a user who holds a token; return its name. The oldest session makes room."""
        name = secrets.token_urlsafe(32)
        self._tokens[_digest(name)] = (self._clock() + SESSION_S, token)
        while len(self._tokens) > MAX_SESSIONS:
            self._tokens.popitem(last=False)
        return name

    def token_of(self, name: str) -> str | None:
        """The token that a session was begun with; None if there is no such session any more.

        Sessions are found by a digest of their name, so how long that takes tells nothing about names.
        """
        found = self._tokens.get(_digest(name))
        if found is None:
            return None
        if self._clock() >= found[0]:
            del self._tokens[_digest(name)]
            return None
        return found[1]

    def end(self, name: str) -> None:
        """Sign out."""
        self._tokens.pop(_digest(name), None)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
