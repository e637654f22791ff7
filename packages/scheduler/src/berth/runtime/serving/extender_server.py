"""Serves our plugins to a stock kube-scheduler, which calls them over HTTP as an extender.

`berth extender` makes an `ExtenderServer` and awaits `run`. It follows the cluster through informers into a core that
never schedules, and answers POSTs of `/filter`, `/prioritize`, `/preempt` and `/bind` between two events, on one event
loop. Without a cluster it makes a core of the nodes that come with each request.
"""

import asyncio
import ipaddress
import logging
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from berth.api.codec import ObjectError, decode
from berth.api.errors import TransportError
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.core.questions import attempt_for
from berth.cycle.binding_cycle import bind_by_plugins
from berth.extender import wire
from berth.extender.client import MAX_ANSWER_BYTES
from berth.framework.effects import Answer, ApiCall, Bind
from berth.framework.registry import Registry
from berth.kube.changes import Change, InvalidObject
from berth.kube.transport import Transport
from berth.runtime.acting.bindings import BindingClient
from berth.runtime.acting.effects import call
from berth.runtime.grouped_report import GroupedReport
from berth.runtime.serving.extender_answers import AnswerError, ExtenderAnswers
from berth.runtime.serving.options import PortTaken
from berth.runtime.serving.server import SHUTDOWN_TIMEOUT_S, refuse_foreign_hosts
from berth.runtime.watched_resources import WatchedResources, event_of
from berth.serving.peer_errors import PeerErrorLog, ServerLog
from berth.state.pod_info import PodInfo

MAX_REQUEST_BYTES = MAX_ANSWER_BYTES
NOT_SYNCED = "this extender has not seen the whole cluster yet; try again"
NO_CLUSTER = "this extender follows no cluster"

_log = logging.getLogger("berth.extender")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ExtenderServer:
    """The plugins of the configuration's first profile, served; `transport` is None for no cluster."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        transport: Transport | None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._config = msgspec.structs.replace(config, extenders=(), profiles=config.profiles[:1])
        self._registry = registry
        self._transport = transport
        self._where = host, port, tls
        # On loopback a web page must not get in under its own host name; elsewhere services have names.
        self._middlewares = [refuse_web_pages]
        if ipaddress.ip_address(host).is_loopback:
            self._middlewares.append(refuse_foreign_hosts)
        self._runner: web.AppRunner | None = None
        self.core = self._make_core()  # raises where the configuration cannot be used
        self._answers = ExtenderAnswers(self.core)
        self._following: WatchedResources | None = None
        self._binder: BindingClient | None = None
        if transport is not None:
            rng = random.Random()
            report, custom = GroupedReport(_log.warning), self.core.resources
            self._following = WatchedResources(transport, self._take_in, report=report, rng=rng, custom=custom)
            self._binder = BindingClient(transport, _log.warning, rng)
        self.is_ready = transport is None
        self.address = ""
        """Where it listens, once started."""

    def _make_core(self) -> Core:
        return build_core(self._config, self._registry, CoreOptions(rng=random.Random()))

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the cluster until `stop` is set; call `start` before. Raises bugs."""
        tasks = [asyncio.create_task(stop.wait())]
        if self._following is not None:
            tasks.append(asyncio.create_task(self._following.run(), name="following"))  # type: ignore[arg-type]
            syncing = asyncio.create_task(self._wait_for_sync())
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            tasks += [syncing] if self._following is not None else []  # type: ignore[list-item]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_sync(self) -> None:
        assert self._following is not None
        await self._following.wait_for_sync()
        self.is_ready = True
        _log.info("caches are synced: %d nodes", len(self.core.cache.table))

    async def start(self) -> None:
        """Listen; raises `PortTaken`."""
        host, port, tls = self._where
        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=self._middlewares)
        app.router.add_get("/healthz", self._healthz)
        verbs: dict[str, Callable[[bytes], Any]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        for verb, answer in verbs.items():
            app.router.add_post(f"/{verb}", _handler(verb, answer))
        app.router.add_post("/bind", self._bind)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=ServerLog(_log, PeerErrorLog(time.monotonic)),
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls).start()
        except OSError as error:
            await self.stop()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise PortTaken(f"cannot serve on {host}:{port}: {reason}; choose another --port") from None
        found = self._runner.addresses[0][1]
        self.address = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{found}"

    async def stop(self) -> None:
        """Stop listening; safe to call twice."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    # -- verbs ---------------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> wire.ExtenderFilterResult:
        args = wire.read(body, wire.ExtenderArgs)
        return self._advice(args).filter(args)

    def _prioritize(self, body: bytes) -> Any:
        args = wire.read(body, wire.ExtenderArgs)
        return self._advice(args).prioritize(args)

    def _preempt(self, body: bytes) -> wire.ExtenderPreemptionResult:
        args = wire.read(body, wire.ExtenderPreemptionArgs)
        if self._transport is None:
            raise AnswerError(f"{NO_CLUSTER}, so that it does not know what runs on the nodes")
        return self._advice(wire.ExtenderArgs()).preempt(args)

    async def _bind(self, request: web.Request) -> web.Response:
        error = ""
        try:
            await self._bind_pod(wire.read(await request.read(), wire.ExtenderBindingArgs))
        except (wire.WireError, AnswerError, ObjectError, TransportError) as problem:
            error = str(problem)
        return _json(wire.ExtenderBindingResult(error))

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok") if self.is_ready else web.Response(status=503, text=f"{NOT_SYNCED}\n")

    def _advice(self, args: wire.ExtenderArgs) -> ExtenderAnswers:
        """Return what answers: the core that follows the cluster, or one made of the nodes given."""
        if not self.is_ready:
            raise AnswerError(NOT_SYNCED)
        if self._transport is not None:
            return self._answers
        if args.nodes is None:
            raise AnswerError(f"{NO_CLUSTER}, and needs whole nodes: leave nodeCacheCapable out")
        core = self._make_core()
        for node in args.nodes.items:
            core.handle(ObjectEvent("ADDED", "Node", decode("Node", node)), 0.0)
        return ExtenderAnswers(core)

    async def _bind_pod(self, args: wire.ExtenderBindingArgs) -> None:
        """Bind by the profile's Bind plugins; raises `AnswerError` with why not."""
        if self._transport is None:
            raise AnswerError(f"{NO_CLUSTER}, so that it cannot bind")
        key = f"{args.pod_namespace}/{args.pod_name}"
        pod = PodInfo.of(await self._find(args.pod_namespace, args.pod_name))
        if args.pod_uid and pod.uid != args.pod_uid:
            raise AnswerError(f"pod {key} is not the one that was meant: its uid is {pod.uid}, not {args.pod_uid}")
        attempt = attempt_for(self.core, pod, profile=next(iter(self.core.profiles.values())))
        steps = bind_by_plugins(attempt, args.node)
        answer: Any = None
        while True:
            try:
                effect = steps.send(answer)
            except StopIteration as end:
                status = end.value
                break
            answer = await self._carry_out(effect)
        if status is not None:
            raise AnswerError(status.message)
        if self.core.cache.state_of(pod.uid) is None:  # else the watch was faster
            self.core.cache.assume(pod, args.node)

    async def _find(self, namespace: str, name: str) -> Pod:
        """The pod as last seen, or as the API server has it."""
        assert self._following is not None and self._transport is not None
        found: Pod | None = self._following.find("Pod", namespace, name)
        if found is None:
            found = decode("Pod", await self._transport.get(RESOURCES["Pod"], namespace, name))
        return found

    async def _carry_out(self, effect: Any) -> Answer:
        assert self._binder is not None and self._transport is not None
        try:
            if isinstance(effect, Bind):
                return Answer(0, error=(await self._binder.bind(effect)).error)
            if isinstance(effect, ApiCall):
                return Answer(0, await call(self._transport, effect, self.core.resources))
        except TransportError as refused:
            return Answer(0, error=str(refused))
        return Answer(0, error=f"an extender's Bind plugin cannot ask for {type(effect).__name__}")

    def _take_in(self, changes: list[Change]) -> None:
        """The informers' sink."""
        for change in changes:
            if isinstance(change, InvalidObject):
                _log.warning("%s %s cannot be read: %s", change.resource.kind, change.name, change.problem)
                continue
            event = event_of(change)
            if event is None:
                continue
            try:
                self.core.handle(event, time.monotonic())
            except Exception:  # an object that breaks the core is left out, and the others go on
                _log.exception("%s broke because of a bug; going on without it", event.kind)


@web.middleware
async def refuse_web_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse web pages, so that none can bind pods. Browsers send such headers; kube-scheduler does not."""
    if "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        return web.Response(status=403, text="requests of web pages are not answered here\n")
    return await handler(request)


def _handler(verb: str, answer: Callable[[bytes], Any]) -> Handler:
    """Answer one verb. What goes wrong is in filter's `Error`; the others have none, and answer with status 500."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return _json(answer(await request.read()))
        except (wire.WireError, AnswerError, ObjectError) as error:
            problem = str(error)
        except (web.HTTPException, ConnectionError):  # too long, or the client went away
            raise
        except Exception as bug:  # most likely a plugin's
            _log.exception("%s broke because of a bug, most likely in a plugin", verb)
            problem = f"{type(bug).__name__}: {bug}"
        if verb == "filter":
            return _json(wire.ExtenderFilterResult(error=problem))
        return web.Response(status=500, text=f"{verb}: {problem}\n")

    return handle


def _json(document: Any) -> web.Response:
    return web.Response(body=wire.encode(document), content_type="application/json")
