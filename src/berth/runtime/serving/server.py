"""What the scheduler serves over HTTP, on loopback: health, metrics, configuration, and its decisions.

`berth run` starts a `HealthServer` before the first connection to the cluster, so that probes have an answer from the
beginning. Requests are answered on the scheduler's own event loop, between cycles: no view is ever half made.
"""

import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from aiohttp import web

from berth.config.dump import dump_config
from berth.config.types import SchedulerConfiguration
from berth.runtime.observing.component import ComponentMetrics, LeaseState
from berth.runtime.observing.health_slis import HealthSlis
from berth.runtime.observing.informers import InformerMetrics
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.pod_resources import PodResources
from berth.runtime.observing.rest_client import RestClientMetrics
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving.debugging import Debugging, as_json
from berth.runtime.serving.health import answer, checks_of

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHUTDOWN_TIMEOUT_S = 0.5

_TRUE = ("", "1", "true")
_log = logging.getLogger("berth.scheduler")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PortTaken(RuntimeError):  # noqa: N818 - it says what happened
    """The address cannot be listened on."""


class Listener(NamedTuple):
    """A loopback address to serve on; port 0 is none, as kube-scheduler's flags say."""

    host: str
    port: int
    flag: str = "--secure-port"
    is_optional: bool = False
    """Whether a port that is taken is only worth a warning."""


class HealthServer:
    """Serves one live scheduler; with port 0 it serves nothing, as kube-scheduler's flag says."""

    __slots__ = (
        "_checks",
        "_component",
        "_config",
        "_debugging",
        "_listeners",
        "_metrics",
        "_resources",
        "_runner",
        "_scheduler",
        "_slis",
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
    ) -> None:
        """`also` is a second address for the same things; `requests` counts the requests to the API server."""
        self._debugging = Debugging(scheduler)
        self._metrics = metrics
        self._scheduler = scheduler
        self._component = ComponentMetrics(config.feature_gates)
        self._component.add(requests or RestClientMetrics())
        self._component.add(InformerMetrics(scheduler.following))
        self._resources = PodResources(lambda: scheduler.core.intake.pods)
        self._slis = HealthSlis()
        self._checks = {
            endpoint: {name: self._slis.watched(endpoint, name, check) for name, check in checks.items()}
            for endpoint, checks in checks_of(scheduler).items()
        }
        self._config = config
        wanted = (Listener(host, port), also)
        self._listeners = [listener for listener in wanted if listener is not None and listener.port]
        self._runner: web.AppRunner | None = None
        self.addresses: list[str] = []
        """Where it listens, once started."""

    @property
    def address(self) -> str:
        """The first of the addresses, empty for none."""
        return self.addresses[0] if self.addresses else ""

    async def start(self) -> None:
        """Listen; raises `PortTaken`."""
        if not self._listeners:
            return
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
        await self._runner.setup()
        for listener in self._listeners:
            await self._listen(self._runner, listener)

    async def _listen(self, runner: web.AppRunner, listener: Listener) -> None:
        site = web.TCPSite(runner, listener.host, listener.port)
        try:
            await site.start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
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
        self.addresses.append(f"http://{host}:{listener.port}")

    async def stop(self) -> None:
        """Stop listening; safe to call twice."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[refuse_foreign_hosts])
        routes: dict[str, Handler] = {
            "/": self._index,
            "/metrics": self._get_metrics,
            "/metrics/resources": self._get_resources,
            "/metrics/slis": self._get_slis,
            "/configz": self._get_configuration,
            "/debug/decisions": self._get_decisions,
            "/debug/decisions/{namespace}/{name}": self._get_decision,
            "/debug/queue": self._get_queue,
        }
        routes.update({f"/{endpoint}": self._get_health for endpoint in self._checks})
        routes.update({f"/{endpoint}/{{check}}": self._get_one_check for endpoint in self._checks})
        for path, handler in routes.items():
            app.router.add_get(path, handler)
        return app

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
        return _metrics(self._metrics.exposition() + component)

    async def _get_resources(self, _request: web.Request) -> web.Response:
        return _metrics(self._resources.exposition())

    async def _get_slis(self, _request: web.Request) -> web.Response:
        return _metrics(self._slis.exposition())

    async def _get_configuration(self, _request: web.Request) -> web.Response:
        return _json({"componentconfig": dump_config(self._config)})

    async def _get_decisions(self, _request: web.Request) -> web.Response:
        return _json({"decisions": list(self._debugging.decisions())})

    async def _get_decision(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        all_nodes = request.query.get("allNodes", "no") in _TRUE
        report = self._debugging.report(key, all_nodes=all_nodes, nodes=request.query.getall("node", []))
        if report is None:
            names = ", ".join(profile.scheduler_name for profile in self._config.profiles)
            why = (
                f"nothing is known of pod {key}: no recent decision was about it, and it is not pending here, "
                f"where pods of schedulerName {names} are scheduled"
            )
            return _json({"error": why}, status=404)
        return _json(report)

    async def _get_queue(self, _request: web.Request) -> web.Response:
        return _json({"pods": list(self._debugging.queue())})


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


def _metrics(text: bytes) -> web.Response:
    return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=as_json(value), content_type="application/json")
