"""Whether a user may read what is served: some paths and groups are always allowed, the API server decides about all
others.

As kube-scheduler: `system:masters` may do everything, the paths of `--authorization-always-allow-paths` are open to
everybody, and the API server decides everything else by a SubjectAccessReview. If it cannot be asked, access is denied.
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
    """Says who may read what; `transport` is None if there is no API server to ask."""

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
        """Say whether the user may. Raises `ReviewError` if the API server cannot say, and `TooManyReviews`."""
        if PRIVILEGED_GROUP in user.groups or path in self._always:
            return AccessVerdict(True)
        transport = self._transport
        if transport is None or len(path) > MAX_PATH_CHARACTERS:
            return AccessVerdict(False)
        spec = access_question(user, verb, path)
        question = msgspec.json.encode(spec, order="sorted")
        return await self._reviews.answer(question, lambda: review_access(transport, spec))
