"""Asks the API server who a user is and what they may do: TokenReview, SubjectAccessReview, and whom it trusts.

Answers are kept for as long as the flags say, in caches of bounded size; the same question asked by many at once is
sent once; and only a few questions may be under way or waiting, so that strangers cannot make us flood the API server.
The caller gets an answer or an exception, never a guess.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from berth.api.errors import TransportError
from berth.api.resources import RESOURCES, Resource
from berth.api.untrusted import UNREADABLE, problem_of
from berth.kube.transport import Transport

MAX_KEPT = 4096
MAX_UNDER_WAY = 16
MAX_WAITING = 128
REVIEW_TIMEOUT_S = 10.0

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
AUTHENTICATION_CONFIG = "extension-apiserver-authentication"

_T = TypeVar("_T")


class ReviewError(Exception):
    """The API server could not be asked, or gave an answer that cannot be read."""


class TooManyReviews(Exception):  # noqa: N818 - it says what is the matter
    """Too many questions are waiting."""


class RequestUser(msgspec.Struct, frozen=True):
    """Who asks, as the API server calls them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()


class _TokenAnswer(msgspec.Struct, frozen=True):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool
    denied: bool = False
    reason: str = ""


class _AccessAnswer(msgspec.Struct, frozen=True):
    status: _AccessStatus


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class AccessVerdict(msgspec.Struct, frozen=True):
    """Whether a user may do something, and the reason given."""

    is_allowed: bool
    reason: str = ""


class BoundedCache(Generic[_T]):
    """Answers by question, each until it expires; the least recently used makes room."""

    __slots__ = ("_clock", "_kept", "_max_kept")

    def __init__(self, clock: Callable[[], float], max_kept: int = MAX_KEPT) -> None:
        self._clock = clock
        self._max_kept = max_kept
        self._kept: OrderedDict[bytes, tuple[float, _T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, question: bytes) -> _T | None:
        """The answer, unless it is too old."""
        found = self._kept.get(question)
        if found is None:
            return None
        if self._clock() >= found[0]:
            del self._kept[question]
            return None
        self._kept.move_to_end(question)
        return found[1]

    def put(self, question: bytes, answer: _T, ttl_s: float) -> None:
        """Keep an answer for so long."""
        if ttl_s <= 0:
            return
        self._kept[question] = (self._clock() + ttl_s, answer)
        self._kept.move_to_end(question)
        while len(self._kept) > self._max_kept:
            self._kept.popitem(last=False)


class Reviews(Generic[_T]):
    """Asks questions of one kind, each once at a time, and few at once."""

    __slots__ = ("_cache", "_places", "_ttl_s", "_under_way")

    def __init__(self, ttl_s: Callable[[_T], float], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`ttl_s` says how long an answer counts."""
        self._cache: BoundedCache[_T] = BoundedCache(clock)
        self._ttl_s = ttl_s
        self._places = asyncio.Semaphore(MAX_UNDER_WAY)
        self._under_way: dict[bytes, asyncio.Task[_T]] = {}

    async def answer(self, question: bytes, ask: Callable[[], Awaitable[_T]]) -> _T:
        """The answer that is known, or else what `ask` gives; raises `ReviewError` and `TooManyReviews`."""
        known = self._cache.get(question)
        if known is not None:
            return known
        task = self._under_way.get(question)
        if task is None:
            if len(self._under_way) >= MAX_UNDER_WAY + MAX_WAITING:
                raise TooManyReviews
            task = asyncio.get_running_loop().create_task(self._ask(question, ask), name="review")
            self._under_way[question] = task
            task.add_done_callback(lambda _done: self._under_way.pop(question, None))
        return await asyncio.shield(task)  # others wait for the same answer when one of them goes away

    async def _ask(self, question: bytes, ask: Callable[[], Awaitable[_T]]) -> _T:
        async with self._places:
            try:
                async with asyncio.timeout(REVIEW_TIMEOUT_S):
                    found = await ask()
            except TimeoutError:
                raise ReviewError(f"the API server gave no answer within {REVIEW_TIMEOUT_S:g} s") from None
            except TransportError as error:
                raise ReviewError(str(error)) from None
            except UNREADABLE as error:
                raise ReviewError(f"the API server's answer cannot be read: {problem_of(error)}") from None
        self._cache.put(question, found, self._ttl_s(found))
        return found


async def review_token(transport: Transport, token: str) -> RequestUser | None:
    """Return whose token it is; None if nobody's."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = await transport.create(TOKEN_REVIEWS, "", msgspec.json.encode(body))
    status = msgspec.json.decode(answer, type=_TokenAnswer).status
    if not status.authenticated or not status.user.username:
        return None
    user = status.user
    return RequestUser(user.username, tuple(user.groups or ()), user.uid, user.extra or {})


def access_question(user: RequestUser, verb: str, path: str) -> dict[str, Any]:
    """The spec of a SubjectAccessReview: may this user do this with what is served at this path?"""
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {key: list(values) for key, values in user.extra.items()},
        "nonResourceAttributes": {"path": path, "verb": verb},
    }
    return {key: value for key, value in spec.items() if value}


async def review_access(transport: Transport, spec: Mapping[str, Any]) -> AccessVerdict:
    """Whether a spec of `access_question` is allowed."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await transport.create(ACCESS_REVIEWS, "", msgspec.json.encode(body))
    status = msgspec.json.decode(answer, type=_AccessAnswer).status
    return AccessVerdict(status.allowed and not status.denied, status.reason)


async def read_authentication_config(transport: Transport) -> Mapping[str, str]:
    """What the cluster publishes about whom it trusts; raises `ReviewError`."""
    try:
        async with asyncio.timeout(REVIEW_TIMEOUT_S):
            body = await transport.get(RESOURCES["ConfigMap"], "kube-system", AUTHENTICATION_CONFIG)
        return msgspec.json.decode(body, type=_ConfigMap).data or {}
    except TimeoutError:
        raise ReviewError(f"the API server gave no answer within {REVIEW_TIMEOUT_S:g} s") from None
    except TransportError as error:
        raise ReviewError(str(error)) from None
    except UNREADABLE as error:
        raise ReviewError(f"ConfigMap {AUTHENTICATION_CONFIG} cannot be read: {problem_of(error)}") from None
