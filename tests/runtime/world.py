"""An embedded cluster without sockets whose transport fails when told to, and a live scheduler on it."""

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from berth.api.errors import ApiError, CalledOff
from berth.api.resources import RESOURCES
from berth.config.load import load_config
from berth.kube.transport import always
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.turns import Inline
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.store import Store
from tests.rbac import Authorizer
from tests.waiting import until

POD, NODE, EVENT = RESOURCES["Pod"], RESOURCES["Node"], RESOURCES["Event"]


async def _nothing():
    return b""


class FaultyTransport:
    """A store's transport; `refuse` fails calls before they happen, `lose` after they did.

    A call that the roles under deploy/ do not grant fails the test.
    """

    def __init__(self, store):
        self._inner = StoreTransport(store)
        self.calls = []
        self._rbac = Authorizer()
        self._refusals = defaultdict(list)
        self._losses = defaultdict(list)
        self._lies = defaultdict(list)
        self.gates = {}
        self.unserved = set()
        self.garbled = {}
        self.turns = asyncio.Event()
        """Bindings wait for it before they are sent, as for a rate limit."""
        self.turns.set()
        self.cuts = {}
        """By plural, words at whose next line the watch is cut in the middle of that line."""

    def refuse(self, verb, *errors):
        self._refusals[verb] += errors

    def lose(self, verb, *errors):
        self._losses[verb] += errors

    def lie(self, verb, *answers, is_done):
        """Give these answers in place of the true ones, to calls that were carried out or not."""
        self._lies[verb] += [(answer, is_done) for answer in answers]

    def hold(self, verb):
        """Calls of this verb wait until the returned event is set."""
        self.gates[verb] = asyncio.Event()
        return self.gates[verb]

    def count(self, verb, plural=""):
        return sum(call[0] == verb and plural in ("", call[1]) for call in self.calls)

    async def _call(self, verb, plural, act):
        self.calls.append((verb, plural))
        if plural in self.unserved:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if verb in self.gates:
            await self.gates[verb].wait()
        if self._refusals[verb]:
            raise self._refusals[verb].pop(0)
        lie, is_done = self._lies[verb].pop(0) if self._lies[verb] else (None, True)
        answer = await act() if is_done else None
        if self._losses[verb]:
            raise self._losses[verb].pop(0)
        if lie is not None:
            return lie
        return self._garble(answer) if verb == "list" else answer

    def _garble(self, data):
        """What was stored, made unreadable on its way."""
        for good, bad in self.garbled.items():
            data = data.replace(good, bad)
        return data

    def _authorize(self, verb, resource, namespace="", name="", subresource=""):
        what = f"{resource.plural}/{subresource}" if subresource else resource.plural
        granted = self._rbac.allows(verb, resource.group, what, namespace, name)
        assert granted, f"the roles under deploy/ do not grant: {verb} {what} {namespace}/{name}"

    async def bind(self, namespace, name, body, *, wanted=always):
        self._authorize("create", POD, namespace, name, "binding")
        await self.turns.wait()
        if not wanted():
            raise CalledOff("not sent")
        return await self._call("bind", "pods", lambda: self._inner.bind(namespace, name, body))

    async def close(self):
        pass

    async def read(self, path):
        self.calls.append(("read", path))
        answer = msgspec.json.decode(await self._inner.read(path))
        if "resources" in answer:
            answer["resources"] = [each for each in answer["resources"] if each["name"] not in self.unserved]
        return msgspec.json.encode(answer)

    async def watch(self, resource, **options):
        self._authorize("watch", resource)
        self.calls.append(("watch", resource.plural))
        if options.get("send_initial_events"):  # a streaming list: whatever befalls lists befalls it
            await self._call("list", resource.plural, _nothing)
        cuts = self.cuts.get(resource.plural, [])
        async for line in self._inner.watch(resource, **options):
            if cuts and cuts[0] in line:
                cuts.pop(0)
                yield line[: len(line) // 2]
                return
            yield self._garble(line)

    def __getattr__(self, verb):
        def call(resource, *arguments, **options):
            place = (options.get("namespace", ""), "") if verb == "list" else arguments[: 1 if verb == "create" else 2]
            self._authorize(verb, resource, *place, subresource=options.get("subresource", ""))
            return self._call(
                verb, resource.plural, lambda: getattr(self._inner, verb)(resource, *arguments, **options)
            )

        return call


def configuration(*, leader_elect=False, **document):
    """A configuration that elects nobody, unless told otherwise."""
    election = {"leaderElect": leader_elect}
    base = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": election,
    }
    return load_config({**base, **document}, "the test's configuration")


SHARED_PLUGINS = """PrioritySort NodeUnschedulable NodeAffinity TaintToleration NodePorts NodeResourcesFit ImageLocality
DefaultPreemption DefaultBinder"""
"""Plugins that each generation has under the same name."""


def of_generation(generation, name="default-scheduler"):
    """A configuration with one profile of a few plugins, for either generation."""
    enabled = [{"name": plugin} for plugin in SHARED_PLUGINS.split()]
    profile = {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}
    return msgspec.structs.replace(configuration(profiles=[profile]), generation=generation)


class World:
    """A store with nodes, its transport, and what tests ask of both."""

    def __init__(self, nodes=2, cpu="1"):
        self.store = Store(clock=lambda: datetime.now(UTC))
        self.transport = FaultyTransport(self.store)
        self.add_nodes(nodes, cpu)

    def add_nodes(self, count, cpu="1", first=0):
        create_nodes(self.store, NodeTemplate(cpu=cpu), count, first=first)

    def add_pod(self, name, cpu="100m", **spec):
        container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], **spec},
        }
        return self.store.create(POD, "default", body)

    def pod(self, name):
        return next(pod for pod in self.store.objects(POD) if pod["metadata"]["name"] == name)

    def node_of(self, name):
        return self.pod(name)["spec"].get("nodeName", "")

    def condition(self, name):
        conditions = self.pod(name)["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), None)

    def events(self, reason):
        return [event for event in self.store.objects(EVENT) if event["reason"] == reason]

    def accepted(self):
        return [record for record in self.store.bindings if record.accepted]


@asynccontextmanager
async def scheduling(world, config=None, **options):
    """A live scheduler at work; ended cleanly afterwards."""
    options = {"runner": Inline(), **options}  # what tests read of the core is never half made
    scheduler = LiveScheduler(config or configuration(), world.transport, **options)
    stop = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stop))
    try:
        await until(lambda: scheduler.is_leading or task.done() or scheduler.elects_leader)
        yield scheduler
    finally:
        stop.set()
        await task


async def at_once(_delay_s):
    """A sleep that takes no time."""
    await asyncio.sleep(0)
