"""What the scheduler serves over HTTP: health, metrics, configuration, and its decisions.

`berth run` starts a `HealthServer` while the cluster is being read, so that probes have an answer long before that is
done. On the secure port it speaks TLS and answers those who may (`secure`); plain HTTP is for loopback only, as v1.20's
`--port` has it. Requests are answered on the event loop; handlers that read the core do so between cycles, so that no
view is inconsistent, and answer 503 if a cycle does not end in time.
"""

import asyncio
import ipaddress
import logging
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from berth import __version__
from berth.agreement.observer import ObservingCore
from berth.agreement.report import report_of
from berth.api.redaction import redact_url
from berth.config.dump import dump_config
from berth.config.types import SchedulerConfiguration
from berth.decisions.fit import fit
from berth.decisions.fit_question import FitManifestError, read_question
from berth.decisions.keeper import LogKeeper
from berth.decisions.node_columns import copy_columns
from berth.decisions.placements import copy_pods, node_and_pods
from berth.decisions.plugin_views import figure_reports, plugin_reports, shadow_reports
from berth.runtime.observing.component import ComponentMetrics, LeaseState
from berth.runtime.observing.health_slis import HealthSlis
from berth.runtime.observing.informers import InformerMetrics
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.pod_resources import PodResources
from berth.runtime.observing.rest_client import RestClientMetrics
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving import pprof as profiling
from berth.runtime.serving import zpages
from berth.runtime.serving.debug_endpoints import Debugging, as_json
from berth.runtime.serving.health import answer, checks_of
from berth.runtime.serving.log_flags import LOG_FLAGS
from berth.runtime.serving.options import PortTaken
from berth.runtime.serving.pprof import CpuProfiler
from berth.runtime.turns import CycleBusy
from berth.serving.connections import BoundedListener, ConnectionLimits, GuardedProtocol, limits_of
from berth.serving.foreign_pages import is_sent_by_another_page

if TYPE_CHECKING:
    from berth.runtime.serving.secure import SecureServing  # imports cryptography, which takes 9 MB

API_SERVER_HEADER = "Berth-Api-Server"
CLUSTER_HEADER = "Berth-Cluster"
"""The uid of the namespace kube-system, which is the same from wherever the cluster is reached."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHUTDOWN_TIMEOUT_S = 0.5
CORE_TIMEOUT_S = 8.0
"""How long a request waits for the core to be between two cycles: commands, and scrapers by default, give up after ten
seconds. Whoever has asked comes next, so only a cycle that takes longer by itself keeps a question unanswered."""
LIMITS = ConnectionLimits(total=256, on_trial=128, head_bytes=32 * 1024)  # tokens of many groups are long
MAX_BODY_BYTES = 64 * 1024

_TRUE = ("", "1", "true")
_log = logging.getLogger("berth.scheduler")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener(NamedTuple):
    """An address to serve on; port 0 is none, as kube-scheduler's flags say. Without `secure` it is one of loopback."""

    host: str
    port: int
    flag: str = "--secure-port"
    is_optional: bool = False
    """Whether a port that is taken is only worth a warning."""
    secure: "SecureServing | None" = None


class HealthServer:
    """Serves one live scheduler; with port 0 it serves nothing, as kube-scheduler's flag says."""

    __slots__ = (
        "_api_server",
        "_checks",
        "_component",
        "_config",
        "_debugging",
        "_flags",
        "_listeners",
        "_listening",
        "_metrics",
        "_profiler",
        "_resources",
        "_runner",
        "_scheduler",
        "_secure",
        "_slis",
        "_started_at",
        "addresses",
    )

    def __init__(
        self,
        scheduler: LiveScheduler,
        metrics: Metrics,
        config: SchedulerConfiguration,
        *,
        host: str = "127.0.0.1",
        port: int = 10259,
        also: Listener | None = None,
        requests: RestClientMetrics | None = None,
        secure: "SecureServing | None" = None,
        flags: Mapping[str, str] | None = None,
        decision_log: LogKeeper | None = None,
        api_server: str = "",
    ) -> None:
        """`secure` is the secure port, in place of plain HTTP at `host` and `port`.

        `also` is a second address, in plain HTTP, for the same things; `requests` counts those to the API server;
        `flags` are shown by `/flagz`. `decision_log` knows pods whose decisions are no longer in memory; `api_server`
        is the address of the one that is followed, for callers that ask about the pods of another.
        """
        self._debugging = Debugging(scheduler, decision_log)
        self._api_server = api_server
        self._metrics = metrics
        self._scheduler = scheduler
        self._component = ComponentMetrics(config.feature_gates)
        self._component.add(requests or RestClientMetrics())
        self._component.add(InformerMetrics(scheduler.following))
        self._resources = PodResources(lambda: scheduler.core.intake.pods)
        self._slis = HealthSlis()
        self._flags = flags or {}
        self._started_at = time.time()
        self._profiler = CpuProfiler()
        self._checks = {
            endpoint: {name: self._slis.watched(endpoint, name, check) for name, check in checks.items()}
            for endpoint, checks in checks_of(scheduler).items()
        }
        self._config = config
        self._secure = secure
        first = Listener(host, port)
        if secure is not None:
            first = Listener(secure.options.bind_address, secure.options.port, secure=secure)
        wanted = (first, also)
        self._listeners = [listener for listener in wanted if listener is not None and listener.port]
        self._listening: list[BoundedListener] = []
        self._runner: web.AppRunner | None = None
        self.addresses: list[str] = []
        """Where it listens, once started."""

    @property
    def address(self) -> str:
        """The first of the addresses, empty for none."""
        return self.addresses[0] if self.addresses else ""

    async def start(self) -> None:
        """Listen; raises `PortTaken`, and what `SecureServing.start` raises."""
        if not self._listeners:
            return
        self._runner = web.AppRunner(
            self._application(),
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )
        await self._runner.setup()
        if self._secure is not None:
            await self._secure.start()
        for listener in self._listeners:
            await self._listen(self._runner, listener)

    async def _listen(self, runner: web.AppRunner, listener: Listener) -> None:
        assert runner.server is not None
        secure = listener.secure
        bounded = BoundedListener(runner.server, secure.certificates.context if secure is not None else None, LIMITS)
        shares_port = secure is not None and secure.options.shares_port
        try:
            await bounded.open(listener.host, listener.port, shares_port=shares_port)
        except OSError as error:
            reason = error.strerror or error
            problem = (
                f"cannot serve health and metrics on {listener.host}:{listener.port}: {reason}; is another scheduler "
                f"running here? Choose another {listener.flag}, or 0 to serve nothing"
            )
            if listener.is_optional:
                _log.warning("%s", problem)
                return
            await self.stop()
            raise PortTaken(problem) from None
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        self._listening.append(bounded)
        self.addresses.append(f"{'http' if secure is None else 'https'}://{host}:{listener.port}")

    async def stop(self) -> None:
        """Stop listening; safe to call twice."""
        listening, self._listening = self._listening, []
        for bounded in listening:
            await bounded.close()
        if self._secure is not None:
            await self._secure.stop()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def _application(self) -> web.Application:
        @web.middleware
        async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._admitted(request, handler)

        app = web.Application(middlewares=[admitted, tell_when_busy], client_max_size=MAX_BODY_BYTES)
        routes: dict[str, Handler] = {
            "/": self._index,
            "/metrics": self._get_metrics,
            "/metrics/resources": self._get_resources,
            "/metrics/slis": self._get_slis,
            "/configz": self._get_configuration,
            "/debug/decisions": self._get_decisions,
            "/debug/decisions/{namespace}/{name}": self._get_decision,
            "/debug/nodes": self._get_nodes,
            "/debug/nodes/{name}": self._get_node,
            "/debug/pods": self._get_pods,
            "/debug/queue": self._get_queue,
            "/debug/pending": self._get_pending,
            "/debug/plugins": self._get_plugins,
            "/debug/shadows": self._get_shadows,
            "/debug/agreement": self._get_agreement,
            "/debug/version": self._get_version,
            "/flagz": self._get_flags,
            "/statusz": self._get_status,
        }
        if self._config.enable_profiling:
            routes["/debug/pprof/"] = routes["/debug/pprof"] = self._get_profiles
            routes["/debug/pprof/{name}"] = self._get_profile
            for path, flag in LOG_FLAGS.items():
                app.router.add_route("*", path, flag.answer)
            routes["/debug/flags"] = routes["/debug/flags/"] = self._get_settable_flags
        routes.update({f"/{endpoint}": self._get_health for endpoint in self._checks})
        routes.update({f"/{endpoint}/{{check}}": self._get_one_check for endpoint in self._checks})
        for path, handler in routes.items():
            app.router.add_get(path, handler)
        app.router.add_post("/fit", self._post_fit)
        return app

    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer permitted requests, with a time limit."""
        protocol = request.protocol
        assert isinstance(protocol, GuardedProtocol)
        is_plain = request.get_extra_info("sslcontext") is None
        found: web.StreamResponse
        own_origin = f"{'http' if is_plain else 'https'}://{request.headers.get('Host', '')}"
        try:
            if is_sent_by_another_page(request.headers, own_origin):
                found = web.Response(status=403, text="requests of other web pages are not answered here\n")
            elif self._secure is None or is_plain:
                protocol.let_in_now()
                found = await refuse_foreign_hosts(request, handler)
            else:
                found = await self._secure.refusal(request, protocol.let_in_now) or await handler(request)
        except web.HTTPNotFound:
            found = web.Response(status=404, text="404 page not found\n")
        except web.HTTPException as error:
            found = web.Response(status=error.status, body=error.body, headers=error.headers)
        protocol.answered(request, found)
        found.headers.setdefault("Cache-Control", "no-cache, private")
        if request.path.startswith("/debug/"):  # a caller that asks about pods must know whose these are
            found.headers[API_SERVER_HEADER] = self._api_server
            found.headers[CLUSTER_HEADER] = self._debugging.cluster_id()
        return found

    async def _index(self, request: web.Request) -> web.Response:
        paths = sorted({resource.canonical for resource in request.app.router.resources()})
        return _json({"paths": paths})

    async def _get_health(self, request: web.Request) -> web.Response:
        endpoint = request.path.strip("/")
        verbose = request.query.get("verbose", "no") in _TRUE
        found = answer(endpoint, self._checks[endpoint], request.query.getall("exclude", []), verbose=verbose)
        return web.Response(status=found.status, text=found.text)

    async def _get_one_check(self, request: web.Request) -> web.Response:
        endpoint, name = request.path.strip("/").split("/")
        check = self._checks[endpoint].get(name)
        if check is None:
            return web.Response(status=404, text=f"{endpoint} has the checks {', '.join(self._checks[endpoint])}\n")
        problem = check()
        return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok")

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        election, scheduler = self._config.leader_election, self._scheduler
        lease = LeaseState(election.resource_name, scheduler.is_leading) if scheduler.elects_leader else None
        component = self._component.exposition(lease, scheduler.work_queues)
        try:
            async with scheduler.between_cycles(CORE_TIMEOUT_S):
                scheduling = self._metrics.exposition()
        except CycleBusy:  # what was counted so far is told, what the core would have to be asked is not
            scheduling = self._metrics.exposition(with_core=False)
        return _metrics(scheduling + component)

    async def _get_resources(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S):
            return _metrics(self._resources.exposition())

    async def _get_slis(self, _request: web.Request) -> web.Response:
        return _metrics(self._slis.exposition())

    async def _get_configuration(self, _request: web.Request) -> web.Response:
        """Upstream's answer, and what its document has no place for: the gates that were set, and the generation."""
        config = self._scheduler.config
        gates = dict(config.feature_gates.overrides)
        return _json({"componentconfig": dump_config(config), "featureGates": gates, "generation": config.generation})

    async def _get_decisions(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S):
            return _json({"decisions": list(self._debugging.decisions())})

    async def _get_decision(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        all_nodes = request.query.get("allNodes", "no") in _TRUE
        report = await self._debugging.full_report(
            key, CORE_TIMEOUT_S, all_nodes=all_nodes, nodes=request.query.getall("node", [])
        )
        if report is None:
            return _json({"error": self._debugging.unknown(key)}, status=404)
        return _json(report)

    async def _get_queue(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S):
            return _json({"pods": list(self._debugging.queue())})

    async def _get_pending(self, request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S):
            return _json(self._debugging.pending_groups(request.query.get("namespace", "")))

    async def _get_plugins(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            found = plugin_reports(core, self._debugging.wall_time)
            return _json({"plugins": found, "figures": figure_reports(core)})

    async def _get_shadows(self, request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            return _json({"shadows": shadow_reports(core, self._debugging.wall_time, request.query.get("pod", ""))})

    async def _get_agreement(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            if not isinstance(core, ObservingCore):
                raise web.HTTPNotFound(text="this scheduler schedules, and observes none; see berth observe\n")
            return _json(report_of(core, self._debugging.wall_time))

    async def _get_nodes(self, _request: web.Request) -> web.Response:
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            copied = copy_columns(core.cache.table)
        body = await asyncio.to_thread(lambda: msgspec.json.encode(copied.columns()))
        return web.Response(body=body, content_type="application/json")

    async def _get_node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            found = node_and_pods(core.cache.table, name)
        if found is None:
            return _json({"error": f"there is no node {name}"}, status=404)
        return _json(found.details())

    async def _get_version(self, _request: web.Request) -> web.Response:
        generation = self._config.generation or f"v{zpages.EMULATED_VERSION}"
        return _json({"version": __version__, "generation": generation, "python": platform.python_version()})

    async def _get_pods(self, request: web.Request) -> web.Response:
        find = request.query.get("find", "")
        async with self._scheduler.between_cycles(CORE_TIMEOUT_S) as core:
            copied = copy_pods(core.cache.table)
        body = await asyncio.to_thread(lambda: msgspec.json.encode(copied.columns(find)))
        return web.Response(body=body, content_type="application/json")

    async def _post_fit(self, request: web.Request) -> web.Response:
        """Answer whether a manifest fits. Plugins are asked, so this runs where cycles run."""
        try:
            async with asyncio.timeout(limits_of(request).body_s):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _json({"error": f"the manifest is longer than {MAX_BODY_BYTES} bytes"}, status=413)
        except TimeoutError:
            return _json({"error": "the manifest did not arrive in time"}, status=408)
        all_nodes = request.query.get("allNodes", "no") in _TRUE
        try:
            question = await asyncio.to_thread(read_question, body, request.query.get("namespace") or "default")
            found = await self._scheduler.ask(lambda core: fit(core, question, all_nodes=all_nodes), CORE_TIMEOUT_S)
        except FitManifestError as error:
            return _json({"error": str(error), "field": error.field}, status=400)
        return _json(found)

    # -- the process itself ------------------------------------------------------------------------------------------

    async def _get_flags(self, request: web.Request) -> web.Response:
        return _page(request, zpages.flagz(self._flags))

    async def _get_status(self, request: web.Request) -> web.Response:
        paths = {resource.canonical for resource in request.app.router.resources()}
        shown = sorted(path for path in paths if "{" not in path and path.count("/") == 1 and path != "/")
        return _page(request, zpages.statusz(self._started_at, shown, self._config.generation))

    async def _get_settable_flags(self, _request: web.Request) -> web.Response:
        names = "".join(f"{path.rpartition('/')[2]}\n" for path in LOG_FLAGS)
        return web.Response(text=f"/debug/flags/\n\nflags:\n{names}")

    async def _get_profiles(self, _request: web.Request) -> web.Response:
        return web.Response(text=profiling.INDEX, content_type="text/html")

    async def _get_profile(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name == "goroutine":
            return web.Response(text=profiling.thread_stacks())
        if name == "cmdline":
            return web.Response(text="\0".join(map(redact_url, sys.argv)))
        if name == "profile":
            return await self._profile(request)
        return web.Response(status=404, text="Unknown profile\n")

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds") or profiling.DEFAULT_S)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= profiling.MAX_S:
            return web.Response(status=400, text=f"seconds must be a number up to {profiling.MAX_S:g}\n")
        try:
            found = await self._profiler.sample(seconds)
        except profiling.ProfileBusy as error:
            return web.Response(status=500, text=f"Could not enable CPU profiling: {error}\n")
        if request.query.get("debug", "0") != "0":
            return web.Response(text=profiling.as_text(found))
        headers = {"Content-Disposition": 'attachment; filename="profile"'}
        body = await asyncio.to_thread(profiling.as_pprof, found, seconds)
        return web.Response(body=body, content_type="application/octet-stream", headers=headers)


@web.middleware
async def refuse_foreign_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer only requests addressed to this machine: a web page whose host name was made to point here is refused."""
    host = request.headers.get("Host", "")
    try:
        name = urlsplit(f"//{host}").hostname or "localhost"
        is_meant = name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        is_meant = False
    if not is_meant:
        return web.Response(status=403, text=f"this is not {host!r}: ask for localhost, or for an address\n")
    return await handler(request)


def _page(request: web.Request, text: str) -> web.Response:
    if not zpages.accepts_text(request.headers.get("Accept", "")):
        return web.Response(status=406, text="media type not supported: this comes as text/plain only\n")
    return web.Response(text=text)


@web.middleware
async def tell_when_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 503 with a sentence if the core is busy for too long."""
    try:
        return await handler(request)
    except CycleBusy as busy:
        return web.Response(status=503, text=f"{busy}; try again\n")


def _metrics(text: bytes) -> web.Response:
    return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=as_json(value), content_type="application/json")
