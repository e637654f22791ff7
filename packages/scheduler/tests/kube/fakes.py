"""A clock that only tests move, a transport that plays a script, and one that keeps objects in memory."""

import asyncio
import heapq
import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from berth.api.errors import ApiError
from tests.waiting import pass_time, settle

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class VirtualClock:
    """Monotonic and wall clock in one; `sleep` ends when a test advances past it."""

    def __init__(self):
        self.now_s = 0.0
        self.slept = []
        self._sleepers = []
        self._order = itertools.count()

    def __call__(self):
        return self.now_s

    def wall(self):
        return START + timedelta(seconds=self.now_s)

    async def sleep(self, delay_s):
        self.slept.append(delay_s)
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + delay_s, next(self._order), woken))
        await woken

    async def advance(self, delay_s):
        """Move time on, waking each sleeper at its own moment."""
        end_s = self.now_s + delay_s
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due_s, _, woken = heapq.heappop(self._sleepers)
            self.now_s = max(self.now_s, due_s)  # a test may have moved it on while nothing ran
            if not woken.done():
                woken.set_result(None)
            await settle()
        self.now_s = end_s
        await settle()


HANG = object()
"""In a script of a watch: nothing more comes, and the stream stays open."""


class ScriptedTransport:
    """Answers lists and watches from a script, an exception in it being raised; when it is over, watches hang.

    A number in the script of a watch is a silence of so many seconds, in virtual time.
    """

    def __init__(self, lists=(), watches=()):
        self.lists = list(lists)
        self.watches = list(watches)
        self.list_calls = []
        self.watch_calls = []
        self.closed_watches = 0

    async def list(self, resource, **options):
        self.list_calls.append(options)
        answer = self.lists.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def watch(self, resource, **options) -> AsyncIterator[bytes]:
        self.watch_calls.append(options)
        try:
            for item in self.watches.pop(0) if self.watches else [HANG]:
                if isinstance(item, BaseException):
                    raise item
                if item is HANG:
                    await asyncio.get_running_loop().create_future()
                if isinstance(item, float):
                    await pass_time(item)
                else:
                    yield item
        finally:
            self.closed_watches += 1


class MemoryTransport:
    """get, create, update and patch over a dict, with resourceVersions; faults can be put in the way."""

    def __init__(self):
        self.objects = {}
        self.calls = []
        self.fault = None
        self.hang = False
        self.gate = asyncio.Event()
        self.gate.set()
        self._version = itertools.count(1)

    async def _enter(self, verb, name):
        self.calls.append((verb, name))
        if self.hang:
            await asyncio.get_running_loop().create_future()
        await self.gate.wait()
        fault = self.fault(verb) if callable(self.fault) else self.fault
        if fault is not None:
            raise fault

    async def get(self, resource, namespace, name):
        await self._enter("get", name)
        return self._answer(self._existing(resource, namespace, name))

    async def create(self, resource, namespace, body, *, name="", subresource=""):
        document = json.loads(body)
        key = (resource.plural, namespace, document["metadata"]["name"])
        await self._enter("create", key[2])
        if key in self.objects:
            raise ApiError(409, "AlreadyExists", f"{key[2]} already exists")
        return self._answer(self._store(key, document))

    async def update(self, resource, namespace, name, body, *, subresource=""):
        await self._enter("update", name)
        document = json.loads(body)
        before = self._existing(resource, namespace, name)
        if document["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self._answer(self._store((resource.plural, namespace, name), document))

    async def patch(self, resource, namespace, name, body, content_type, *, subresource=""):
        await self._enter("patch", name)
        assert content_type == "application/merge-patch+json"
        document = {**self._existing(resource, namespace, name), **json.loads(body)}
        return self._answer(self._store((resource.plural, namespace, name), document))

    def _existing(self, resource, namespace, name):
        try:
            return self.objects[(resource.plural, namespace, name)]
        except KeyError:
            raise ApiError(404, "NotFound", f'{resource.plural} "{name}" not found') from None

    def _store(self, key, document):
        metadata = {**document["metadata"], "resourceVersion": str(next(self._version))}
        self.objects[key] = {**document, "metadata": metadata}
        return self.objects[key]

    @staticmethod
    def _answer(document):
        return json.dumps(document).encode()
