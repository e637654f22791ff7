"""Polls the documents that plugins want from outside the API server (`berth.api.web`).

`WatchedResources` runs it beside the informers and hands on what comes. A missing or unreadable answer is reported once
until there is a good one; the last known document stays in use.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

import aiohttp

from berth.api.codec import ObjectError
from berth.api.custom import CustomObject
from berth.api.redaction import redact, redact_url
from berth.api.web import WebResource
from berth.kube.changes import Added, Custom, Modified
from berth.kube.credentials.proxy import proxy_from_environment
from berth.kube.reflector import Sink
from berth.kube.trouble import InformerTrouble, Report

MAX_ANSWER_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
TIMEOUT_S = 30.0


class _Poll:
    """One document: what is known of it, and the task that asks for it."""

    __slots__ = ("asked", "is_live", "known", "resource", "task", "trouble")

    def __init__(self, resource: WebResource, *, is_live: bool) -> None:
        self.resource = resource
        self.is_live = is_live
        """Whether the core is told of it; else it is only asked for, for a core that is yet to come."""
        self.known: CustomObject | None = None
        self.trouble = ""
        self.asked = asyncio.Event()
        """Set when the document was asked for once, with or without success."""
        self.task: asyncio.Task[None] | None = None


class WebDocuments:
    """The documents, and a task for each. Others may take their place while it runs: `stage`, then `put_in_place`."""

    __slots__ = ("_altered", "_polls", "_report", "_session", "_sink", "_sleep", "_staged")

    def __init__(
        self,
        resources: Iterable[WebResource],
        sink: Sink,
        report: Report,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sink = sink
        self._report = report
        self._sleep = sleep
        self._polls = {resource.name: _Poll(resource, is_live=True) for resource in resources}
        self._staged: dict[str, _Poll] = {}
        """Those that are to come into place, by name."""
        self._session: aiohttp.ClientSession | None = None
        self._altered = asyncio.Event()
        """Set when a document has come or gone."""

    def __iter__(self) -> Iterator[CustomObject]:
        """The documents that are known."""
        return iter([poll.known for poll in list(self._polls.values()) if poll.known is not None])

    async def wait_until_asked(self) -> None:
        """Return when each document was asked for once."""
        for poll in [*self._polls.values(), *self._staged.values()]:
            await poll.asked.wait()

    def stage(self, resources: Iterable[WebResource]) -> None:
        """Begin to poll those of these documents that are not polled yet, without handing them on."""
        for resource in resources:
            known = self._polls.get(resource.name)
            if known is None or known.resource != resource:
                self._staged[resource.name] = _Poll(resource, is_live=False)
        self._altered.set()

    def unstage(self) -> None:
        """Forget what was staged."""
        for poll in self._staged.values():
            _end(poll)
        self._staged = {}

    def put_in_place(self, names: Collection[str]) -> None:
        """Replace documents by staged ones of the same name, and from now on poll only these names."""
        staged, self._staged = self._staged, {}
        for name, poll in tuple(self._polls.items()):
            if name in staged or name not in names:
                _end(poll)
                del self._polls[name]
        for poll in staged.values():
            poll.is_live = True
        self._polls = {**self._polls, **staged}  # whole, since the core's thread may be reading

    async def run(self) -> None:
        """Ask until cancelled; raises only bugs."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            while True:
                polls = [*self._polls.values(), *self._staged.values()]
                if polls and self._session is None:
                    self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout)
                for poll in polls:
                    if poll.task is None and self._session is not None:
                        poll.task = asyncio.create_task(
                            self._follow(self._session, poll), name=f"polling {poll.resource.name}"
                        )
                self._altered.clear()
                altered = asyncio.create_task(self._altered.wait(), name="web documents come and go")
                try:
                    tasks = [poll.task for poll in polls if poll.task is not None]
                    done, _ = await asyncio.wait([altered, *tasks], return_when=asyncio.FIRST_COMPLETED)
                    for ended in done:
                        if ended is not altered and not ended.cancelled():
                            ended.result()
                finally:
                    altered.cancel()
                    await asyncio.gather(altered, return_exceptions=True)
        finally:
            for poll in (*self._polls.values(), *self._staged.values()):
                _end(poll)
            tasks = [p.task for p in (*self._polls.values(), *self._staged.values()) if p.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._session is not None:
                await self._session.close()

    async def _follow(self, session: aiohttp.ClientSession, poll: _Poll) -> None:
        while True:
            problem = await self._ask(session, poll)
            self._tell(poll, problem)
            poll.asked.set()
            await self._sleep(poll.resource.every_s)

    async def _ask(self, session: aiohttp.ClientSession, poll: _Poll) -> str:
        """Ask once, and hand on what has changed; return what went wrong, if anything."""
        resource = poll.resource
        try:
            found = resource.read(await _get(session, resource.url))
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:.0f} s"
        except (aiohttp.ClientError, OSError, ValueError, ObjectError) as error:
            return redact(str(error)) or type(error).__name__
        known = poll.known
        if known is None or known.content != found.content:
            poll.known = found
            if poll.is_live:
                self._sink([Custom(resource.name, Added(found) if known is None else Modified(found, known))])
        return ""

    def _tell(self, poll: _Poll, problem: str) -> None:
        if problem and problem != poll.trouble:
            resource = poll.resource
            where = redact_url(resource.url)
            self._report(
                InformerTrouble(resource.name, f"{where}: {problem}; asking again every {resource.every_s:g} s")
            )
        poll.trouble = problem


def _end(poll: _Poll) -> None:
    if poll.task is not None:
        poll.task.cancel()


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    """Return the body of an answer. Raises what aiohttp raises, and ValueError for a bad status or too long a body."""
    proxy = proxy_from_environment(url, os.environ) or None
    async with session.get(url, proxy=proxy, headers={"User-Agent": "berth-scheduler"}) as response:
        if response.status != 200:
            raise ValueError(f"code {response.status}")
        body = bytearray()
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")
        return bytes(body)
