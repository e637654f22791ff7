"""Whether somebody may read what is served: paths and groups that always may, and the API server's word for all others.

As kube-scheduler: `system:masters` may everything, the paths of `--authorization-always-allow-paths` are open to
everybody, and everything else is put to the API server as a SubjectAccessReview. Where it cannot be asked, nobody may.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from berth.kube.transport import Transport
from berth.runtime.serving.options import AuthorizationOptions
from berth.runtime.serving.reviews import AccessVerdict, RequestUser, Reviews, access_question, review_access

PRIVILEGED_GROUP = "system:masters"
MAX_PATH_CHARACTERS = 4096


class AlwaysAllowedPaths:
    """Paths as the flag names them: whole ones, and prefixes that end in `*`. Raises ValueError for another `*`."""

    __slots__ = ("_paths", "_prefixes")

    def __init__(self, paths: Sequence[str]) -> None:
        for path in paths:
            if "*" in path[:-1]:
                raise ValueError(f'only trailing * allowed in "{path}"')
        stripped = [path.removeprefix("/") for path in paths]
        self._paths = frozenset(path for path in stripped if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in stripped if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._paths or path.startswith(self._prefixes)


class PathAuthorizer:
    """Says who may ask for what; `transport` is None where there is no API server to ask."""

    __slots__ = ("_always", "_reviews", "_transport")

    def __init__(
        self,
        options: AuthorizationOptions,
        transport: Transport | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._always = AlwaysAllowedPaths(options.always_allow_paths)
        self._transport = transport
        self._reviews: Reviews[AccessVerdict] = Reviews(
            lambda verdict: options.allowed_ttl_s if verdict.is_allowed else options.denied_ttl_s, clock=clock
        )

    def is_open(self, path: str) -> bool:
        """Whether everybody may read this."""
        return path in self._always

    async def verdict(self, user: RequestUser, verb: str, path: str) -> AccessVerdict:
        """Whether the user may; raises `ReviewError` where the API server cannot say, and `TooManyReviews`."""
        if PRIVILEGED_GROUP in user.groups or path in self._always:
            return AccessVerdict(True)
        transport = self._transport
        if transport is None or len(path) > MAX_PATH_CHARACTERS:
            return AccessVerdict(False)
        spec = access_question(user, verb, path)
        question = msgspec.json.encode(spec, order="sorted")
        return await self._reviews.answer(question, lambda: review_access(transport, spec))
