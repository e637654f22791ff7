"""Asks for the documents that plugins want from elsewhere (`berth.api.web`), each again and again.

`WatchedResources` runs it beside the informers and hands on what comes. An answer that cannot be had, or read, is told
once until there is another; what was known before stays in force.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator

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


class WebDocuments:
    """The documents, and a task for each."""

    __slots__ = ("_asked", "_known", "_report", "_resources", "_sink", "_sleep", "_troubles")

    def __init__(
        self,
        resources: Iterable[WebResource],
        sink: Sink,
        report: Report,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._resources = tuple(resources)
        self._sink = sink
        self._report = report
        self._sleep = sleep
        self._known: dict[str, CustomObject] = {}
        self._troubles: dict[str, str] = {}
        self._asked = {resource.name: asyncio.Event() for resource in self._resources}
        """Set when a document was asked for once, with or without success."""

    def __iter__(self) -> Iterator[CustomObject]:
        """The documents that are known."""
        return iter(self._known.values())

    async def wait_until_asked(self) -> None:
        """Return when each document was asked for once."""
        for asked in self._asked.values():
            await asked.wait()

    async def run(self) -> None:
        """Ask until cancelled; raises only bugs."""
        if not self._resources:
            await asyncio.Event().wait()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for resource in self._resources:
                tasks.create_task(self._follow(session, resource), name=f"polling {resource.name}")

    async def _follow(self, session: aiohttp.ClientSession, resource: WebResource) -> None:
        while True:
            problem = await self._ask(session, resource)
            self._tell(resource, problem)
            self._asked[resource.name].set()
            await self._sleep(resource.every_s)

    async def _ask(self, session: aiohttp.ClientSession, resource: WebResource) -> str:
        """Ask once, and hand on what has changed; return what went wrong, if anything."""
        try:
            found = resource.read(await _get(session, resource.url))
        except TimeoutError:
            return f"no answer within {TIMEOUT_S:.0f} s"
        except (aiohttp.ClientError, OSError, ValueError, ObjectError) as error:
            return redact(str(error)) or type(error).__name__
        known = self._known.get(resource.name)
        if known is None or known.content != found.content:
            self._known[resource.name] = found
            self._sink([Custom(resource.name, Added(found) if known is None else Modified(found, known))])
        return ""

    def _tell(self, resource: WebResource, problem: str) -> None:
        if problem and problem != self._troubles.get(resource.name):
            where = redact_url(resource.url)
            self._report(
                InformerTrouble(resource.name, f"{where}: {problem}; asking again every {resource.every_s:g} s")
            )
        self._troubles[resource.name] = problem


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
