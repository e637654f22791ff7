"""The live scheduler over HTTP, through a proxy that loses answers, breaks connections and cuts watches in mid-line."""

import asyncio
import random
import ssl
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web

from berth.kube.credentials.sources import ClusterAccess, Credential, StaticCredential
from berth.kube.http.client import HttpTransport
from berth.kube.http.rate_limit import RateLimit
from berth.runtime.scheduler import LiveScheduler
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage.store import Store
from packages.scheduler.tests.kube.servers import serving
from tests.runtime.world import NODE, POD, configuration
from tests.waiting import until

PODS = 60


def now_and_then(rng, longest):
    """Endless answers, True at random but at least once in every `longest`: what a test needs happens in any run."""
    while True:
        harmless = rng.randrange(longest)
        yield from [False] * harmless
        yield True
        yield from [False] * (longest - 1 - harmless)


class FlakyProxy:
    """Passes requests on, and now and then does something nasty; `harm` counts what it did.

    Each nasty thing has counts of its own, over what at least happens `PODS` times in a run: bindings asked for,
    bindings answered, changes of pods told by a watch.
    """

    def __init__(self, target, session, rng):
        self._target, self._session = target, session
        self.harm = Counter()
        self._lose_request = now_and_then(rng, 8)
        self._lose_answer = now_and_then(rng, 8)
        self._be_bad_gateway = now_and_then(rng, 8)
        self._cut_watch = now_and_then(rng, 30)
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def __call__(self, request):
        is_binding = request.path.endswith("/binding")
        if is_binding and next(self._lose_request):
            self._break(request, "request lost")
        headers = {"Authorization": request.headers["Authorization"], "Accept": "application/json"}
        if "Content-Type" in request.headers:
            headers["Content-Type"] = request.headers["Content-Type"]
        async with self._session.request(
            request.method, self._target + request.path_qs, data=await request.read(), headers=headers,
            ssl=self._context,
        ) as answer:  # fmt: skip
            if request.query.get("watch") == "true" and answer.status == 200:
                return await self._stream(request, answer)
            body = await answer.read()
        if is_binding and next(self._lose_answer):
            self._break(request, "answer lost")
        if is_binding and next(self._be_bad_gateway):
            self.harm["bad gateway"] += 1
            return web.Response(status=502, text="<html>bad gateway</html>")
        return web.Response(status=answer.status, body=body, content_type="application/json")

    async def _stream(self, request, answer):
        response = web.StreamResponse()
        await response.prepare(request)
        async for line in answer.content:
            if b'"kind":"Pod"' in line and next(self._cut_watch):
                await response.write(line[: len(line) // 2])
                self._break(request, "watch cut")
            await response.write(line)
        return response

    def _break(self, request, what):
        self.harm[what] += 1
        request.transport.abort()
        raise asyncio.CancelledError


@asynccontextmanager
async def flaky_server(directory, rng):
    """A store behind an API server behind a flaky proxy: the store, the proxy, and the way in."""
    store = Store(clock=lambda: datetime.now(UTC))
    create_nodes(store, NodeTemplate(cpu="1"), PODS // 10)
    server = ApiServer(store, directory)
    await server.start()
    async with aiohttp.ClientSession() as session:
        proxy = FlakyProxy(server.url, session, rng)
        async with serving(proxy) as url:
            source = StaticCredential(Credential(token=server.token))
            transport = HttpTransport(ClusterAccess(url, source=source), rate_limit=RateLimit(qps=-1))
            yield store, proxy, transport
            await transport.close()
    await server.stop()


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_pod_is_bound_once_whatever_is_lost_on_the_way(tmp_path, seed):
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    async with flaky_server(tmp_path, random.Random(seed)) as (store, proxy, transport):
        scheduler = LiveScheduler(configuration(), transport)
        stop = asyncio.Event()
        task = asyncio.create_task(scheduler.run(stop))
        for number in range(PODS):
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"web-{number}"}}
            store.create(POD, "default", {**body, "spec": {"containers": [container]}})
        await until(lambda: all(pod["spec"].get("nodeName") for pod in store.objects(POD)) or task.done())
        await until(lambda: scheduler.core.cache.assumed_count == 0 and not scheduler.pending_calls["pod_binding"])
        stop.set()
        await task
    accepted = [record for record in store.bindings if record.accepted]
    assert set(Counter(record.pod_uid for record in accepted).values()) == {1}
    assert set(Counter(record.node for record in accepted).values()) == {10}
    assert len(accepted) == PODS
    assert len(store.objects(NODE)) == PODS // 10
    assert {"request lost", "answer lost", "bad gateway", "watch cut"} <= proxy.harm.keys()
