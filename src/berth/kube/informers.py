"""The set of reflectors that a scheduler needs: started together, synced together, supervised together.

The runtime adds a reflector for each kind that its plugins need, runs the set as one task, and waits until all have
synced. Trouble with the server is for each reflector to wait out. A bug in one of them, or in the sink, ends the whole
set, and is raised from `run` and from `wait_for_sync`.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from berth.api.resources import Resource
from berth.kube.reflector import Reflector, Report, Sink, _log
from berth.kube.transport import Transport

# Pods that have finished take no room any more: they are neither listed nor counted.
POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"


class InformerSet:
    """Reflectors by resource, with one report function and one source of jitter."""

    __slots__ = ("_clock", "_ended", "_random", "_reflectors", "_report", "_sleep", "_transport")

    def __init__(
        self,
        transport: Transport,
        *,
        report: Report = _log,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._report = report
        self._random = rng or random.Random()
        self._clock = clock
        self._sleep = sleep
        self._reflectors: dict[Resource, Reflector] = {}
        self._ended: asyncio.Future[None] | None = None

    @property
    def reflectors(self) -> Mapping[Resource, Reflector]:
        """The reflectors by resource, for debug endpoints."""
        return self._reflectors

    def add(
        self,
        resource: Resource,
        sink: Sink,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        keep_raw: bool = False,
    ) -> Reflector:
        """Follow a resource; to be called before `run`. Without a selector, pods are followed until they finish."""
        if resource in self._reflectors:
            raise ValueError(f"{resource.plural} are followed already; give the first informer's sink both consumers")
        if resource.kind == "Pod" and not field_selector:
            field_selector = POD_FIELD_SELECTOR
        reflector = Reflector(
            self._transport,
            resource,
            sink,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            keep_raw=keep_raw,
            report=self._report,
            rng=self._random,
            clock=self._clock,
            sleep=self._sleep,
        )
        self._reflectors[resource] = reflector
        return reflector

    async def run(self) -> None:
        """Run every reflector until cancelled, or until one dies of a bug, which is then raised as it is."""
        ended = self._end()
        tasks = [
            asyncio.create_task(reflector.run(), name=f"reflector:{resource.plural}")
            for resource, reflector in self._reflectors.items()
        ]
        if not tasks:
            raise ValueError("there is nothing to follow: add a resource before running the informers")
        try:
            for finished in (await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))[0]:
                await finished
        except BaseException as cause:
            _settle(ended, cause)
            raise
        finally:
            _settle(ended, None)
            await _cancel_all(tasks)

    async def wait_for_sync(self, timeout_s: float | None = None) -> bool:
        """Return True once every first list is handed on, False after `timeout_s`; raises what ended `run` before that.

        `run` must be a task of its own. `unsynced` says what is missing, and why.
        """
        ended = self._end()
        everything = asyncio.create_task(self._all_synced())
        try:
            waited: set[asyncio.Future[Any]] = {everything, ended}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                return True
            if ended.done():
                ended.result()
                raise RuntimeError("the informers were stopped before they had synced")
            return False
        finally:
            everything.cancel()

    async def _all_synced(self) -> None:
        for reflector in self._reflectors.values():
            await reflector.wait_synced()

    def unsynced(self) -> dict[str, str]:
        """Return the resources whose first list is not complete, each with what went wrong last."""
        return {
            resource.plural: reflector.problem or "no answer yet"
            for resource, reflector in self._reflectors.items()
            if not reflector.is_synced
        }

    def _end(self) -> asyncio.Future[None]:
        """Return a future that is settled when `run` is over, with its exception if it ended in a bug."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        return self._ended


def _settle(ended: asyncio.Future[None], cause: BaseException | None) -> None:
    if ended.done():
        return
    if isinstance(cause, Exception):
        ended.set_exception(cause)
        ended.exception()  # mark it as seen: `run` raises it as well, and perhaps nobody waits for this one
    else:
        ended.set_result(None)


async def _cancel_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
