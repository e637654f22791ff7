"""An hour of a busy cluster on the embedded server, in virtual time: prints its memory at each twentieth of the way.

Run as a module, in a process of its own, so that nothing else is measured. Most requests go to the store directly and
some over HTTP; clients come and go, and every name is used once.
"""

import asyncio
import contextlib
import gc
import json
import os
import random
import ssl
import sys
import tempfile
from pathlib import Path

import aiohttp

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.embedded import ClusterSettings, create_nodes, make_controllers
from berth_cluster.hollow.drivers import create_driver_objects
from berth_cluster.hollow.template import NodeTemplate
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage.store import Store
from berth_cluster.storage.watch import WatchLimits
from packages.cluster.tests.objects import DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, NODES, PODS, Clock, deployment, pod

HOUR_S = 3600
ROUND_S = 1.0
MEASURED = 20
HTTP_EVERY = 20  # seconds between visits of a client over the network
CONFIG_MAPS = BY_KEY["", "configmaps"]
KINDS = ("pods", "nodes", "configmaps", "events", "services")


class Busy:
    """The cluster and those who use it."""

    def __init__(self, seed, directory):
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.store = Store(
            self.clock,
            rng=random.Random(seed),
            history=500,
            event_ttl_s=120,
            watch_limits=WatchLimits(events=300, size=512 * 1024),
        )
        settings = ClusterSettings(devices_per_node=2)
        self.manager = ControllerManager(self.store)
        self.manager.add(make_controllers(self.manager.client, settings))
        create_driver_objects(self.store, settings.devices_per_node)
        create_nodes(self.store, NodeTemplate(cpu="64", memory="256Gi"), 20)
        self.server = ApiServer(self.store, directory)
        for number in range(5000):  # fills the caches of parsed selectors, which are bounded but take hours to fill
            self.store.list(CONFIG_MAPS, label_selector=f"warm-{number}!=a")
            compile_json({"matchLabels": {f"warm-{number}": "a"}}, "warm")
        self.count = 0
        self.watches = []

    def name(self, prefix):
        self.count += 1
        return f"{prefix}-{self.count}"

    def second(self):
        """One second of the cluster's life."""
        self.clock.advance(ROUND_S)
        for act in self.rng.choices(
            (self.deploy, self.run_pod, self.config, self.event, self.space, self.lease, self.watch, self.node),
            (2, 4, 4, 6, 1, 2, 3, 1),
            k=6,
        ):
            with contextlib.suppress(StoreError):
                act()
        for _ in range(3):
            self.manager.run_until_quiet(self.clock().timestamp())
            self.schedule()
        self.store.expire_events(at_most=100)

    def schedule(self):
        nodes = [node["metadata"]["name"] for node in self.store.objects(NODES)]
        for waiting in [one for one in self.store.objects(PODS) if not one["spec"].get("nodeName")]:
            meta = waiting["metadata"]
            with contextlib.suppress(StoreError):
                self.store.bind(meta["namespace"], meta["name"], {"target": {"name": self.rng.choice(nodes)}})

    def deploy(self):
        """A deployment comes, is scaled and changed, or goes."""
        there = self.store.objects(DEPLOYMENTS)
        if len(there) < 8:
            name = self.name("web")
            self.store.create(DEPLOYMENTS, "default", deployment(name, replicas=self.rng.randint(1, 4)))
            return
        chosen = self.rng.choice(there)
        meta = chosen["metadata"]
        if self.rng.random() < 0.3:
            self.store.delete(DEPLOYMENTS, meta["namespace"], meta["name"], {"propagationPolicy": "Background"})
        else:
            labels = {self.name("label"): self.name("value")}
            template = {"metadata": {"labels": labels}}
            patch = {"spec": {"replicas": self.rng.randint(0, 4), "template": template}}
            kind = "application/strategic-merge-patch+json"
            self.store.patch(DEPLOYMENTS, meta["namespace"], meta["name"], patch, kind)

    def run_pod(self):
        name = self.name("job")
        obj = pod(name, restartPolicy="Never")
        obj["metadata"]["annotations"] = {"berth.dev/run-seconds": str(self.rng.randint(1, 20))}
        self.store.create(PODS, "default", obj)
        for finished in self.store.objects(PODS):
            if (finished.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                meta = finished["metadata"]
                self.store.delete(PODS, meta["namespace"], meta["name"], {"gracePeriodSeconds": 0})

    def config(self):
        name = self.name("config")
        self.store.create(CONFIG_MAPS, "default", {"metadata": {"name": name}, "data": {"text": "x" * 2000}})
        for old in self.store.list(CONFIG_MAPS, "default")[0][:-20]:
            self.store.delete(CONFIG_MAPS, "default", old["metadata"]["name"])

    def event(self):
        about = {"kind": "Pod", "name": self.name("about"), "namespace": "default"}
        self.store.create(EVENTS, "default", {"metadata": {"name": self.name("event")}, "involvedObject": about})

    def space(self):
        name = self.name("space")
        self.store.create(NAMESPACES, "", {"metadata": {"name": name}})
        self.store.create(CONFIG_MAPS, name, {"metadata": {"name": "inside"}})
        spaces = [one["metadata"] for one in self.store.objects(NAMESPACES) if one["metadata"]["name"][:6] == "space-"]
        staying = [meta["name"] for meta in spaces if "deletionTimestamp" not in meta]
        for old in staying[:-5]:
            self.store.delete(NAMESPACES, "", old)

    def lease(self):
        name = self.name("lease")
        self.store.create(LEASES, "default", {"metadata": {"name": name}, "spec": {"holderIdentity": name}})
        for old in self.store.list(LEASES, "default")[0][:-10]:
            self.store.delete(LEASES, "default", old["metadata"]["name"])

    def node(self):
        first = self.count = self.count + 1
        create_nodes(self.store, NodeTemplate(cpu="64", memory="256Gi", name_prefix="n-"), 1, first=first % 9000)
        mortal = [one for one in self.store.objects(NODES) if one["metadata"]["name"].startswith("n-")]
        if len(mortal) > 5:
            self.store.delete(NODES, "", mortal[0]["metadata"]["name"])

    def watch(self):
        """Watches that are read now and then, or never."""
        kind = self.rng.choice((PODS, NODES, CONFIG_MAPS, EVENTS))
        self.watches.append(self.store.watch(kind, label_selector=f"{self.name('l')}!=a"))
        for one in self.watches:
            if self.rng.random() < 0.5:
                one.events(self.rng.choice((None, 10)))
        while len(self.watches) > 20:
            self.watches.pop(0).close()

    async def over_http(self, session):
        """What clients ask over the network, some of it nonsense."""
        root, kind = f"{self.server.url}/api/v1", self.rng.choice(KINDS)
        path = f"{root}/{kind}" if kind == "nodes" else f"{root}/namespaces/default/{kind}"
        query = self.rng.choice(
            ["", "?limit=5", f"?labelSelector={self.name('x')}", "?resourceVersion=0", f"?continue={self.name('no')}"]
        )
        accept = self.rng.choice(["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
        async with session.get(path + query, headers={"Accept": accept}) as response:
            page = await response.json(content_type=None)
        token = (page.get("metadata") or {}).get("continue")
        if token:
            async with session.get(f"{path}?limit=5&continue={token}") as response:
                await response.read()
        body = self.rng.choice([b"{", b"[]", json.dumps({"metadata": {"name": self.name("http")}}).encode()])
        async with session.post(f"{root}/namespaces/default/configmaps", data=body) as response:
            await response.read()
        async with session.get(f"{path}?watch=true&timeoutSeconds=1000&resourceVersion=0"):
            pass  # it leaves at once


def memory():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def run(seed, seconds):
    measured = []
    with tempfile.TemporaryDirectory() as directory:
        busy = Busy(seed, Path(directory))
        await busy.server.start()
        context = ssl.create_default_context(cadata=busy.server.authority.certificate_pem.decode())
        headers = {"Authorization": f"Bearer {busy.server.token}"}
        for second in range(seconds):
            busy.second()
            if second % HTTP_EVERY == 0:
                connector = aiohttp.TCPConnector(ssl=context)
                async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
                    await busy.over_http(session)
            if (second + 1) % (seconds // MEASURED) == 0:
                measured.append(memory())
        print(json.dumps({"memory": measured, "writes": busy.store.revision, "names": busy.count}))
        await busy.server.stop()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
