"""What an observer costs a pod beside another scheduler, and whether it stays as large as it is.

The other scheduler is a core of ours that looks at a part of the nodes, as kube-scheduler does by default; its bindings
reach the observer late and now and then in another order. Only the observer's work is measured, in CPU time:

    python benchmarks/observing.py --nodes 5000 --pods 20000
    python benchmarks/observing.py --nodes 500 --pods 100000 --every 10000

Pods go again after a while, so that the cluster stays as full as it is.
"""

import random
import resource
import time
from collections import deque
from pathlib import Path

import click
import msgspec

from berth.agreement.observer import Lookahead, Observing, ObservingCore
from berth.agreement.settings import build_observer
from berth.cli.observe import LOOKAHEAD_S, MOMENT_S
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.core.virtual_cluster import VirtualCluster
from berth.plugins.registry import in_tree_registry

RATE = 300.0
ON_THE_WAY = 3
"""How many bindings are under way at a time."""


def resident_mb() -> float:
    """Return what the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


class Stock:
    """The other scheduler, and the API server's revisions."""

    def __init__(self, nodes: int, percentage: int, seed: int) -> None:
        self.lots = random.Random(seed)
        self.nodes = [
            make_node(f"node-{number:05}")
            .capacity(cpu=str(self.lots.choice([16, 32, 64])), memory="128Gi", pods="110")
            .zone(f"zone-{number % 3}")
            .label("pool", f"p{number % 5}")
            .build()
            for number in range(nodes)
        ]
        config = {"percentageOfNodesToScore": percentage, **DOCUMENT}
        self.cluster = VirtualCluster(*self.nodes, config=config, seed=seed, check_promises=0)
        self.revision = 0

    def pod(self, number: int) -> object:
        """Return the next pod, one of a few workloads."""
        app = f"app-{self.lots.randrange(20)}"
        pod = (
            make_pod(f"pod-{number}")
            .label("app", app)
            .request(cpu=self.lots.choice(["100m", "250m", "500m"]), memory="256Mi")
        )
        if app.endswith("3"):
            pod.spread("topology.kubernetes.io/zone", {"app": app}, when="ScheduleAnyway")
        elif app.endswith("7"):
            pod.prefer_node(10, {"key": "pool", "operator": "In", "values": ["p1"]})
        return pod.build()

    def event(self, type_: str, obj: object) -> ObjectEvent:
        """Return an event with a revision of its own."""
        self.revision += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.revision))
        return ObjectEvent(type_, type(obj).__name__, msgspec.structs.replace(obj, metadata=metadata))


DOCUMENT = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=20_000, show_default=True)
@click.option("--alive", default=5_000, show_default=True, help="So many pods stay; the oldest go.")
@click.option("--percentage", default=0, show_default=True, help="Which share of the nodes the other one looks at.")
@click.option("--every", default=5_000, show_default=True, help="Print a line for so many pods.")
def main(nodes: int, pods: int, alive: int, percentage: int, every: int) -> None:
    """Measure."""
    stock = Stock(nodes, percentage, seed=1)
    observing = Observing(Lookahead(None, LOOKAHEAD_S), moment_s=MOMENT_S)
    config = load_config({"percentageOfNodesToScore": percentage, **DOCUMENT})
    before_mb = resident_mb()
    core = build_observer(config, in_tree_registry(), CoreOptions(rng=random.Random(0)), observing=observing)
    cpu_s = 0.0

    def tell(events: list[ObjectEvent], now: float) -> None:
        nonlocal cpu_s
        started = time.process_time()
        for event in events:
            core.handle(event, now)
        core.step(now)
        while core.has_work:
            core.step(now)
        cpu_s += time.process_time() - started

    tell([stock.event("ADDED", node) for node in stock.nodes], 0.0)
    begun_s, last_s, last_pods = cpu_s, cpu_s, 0
    on_the_way: deque[ObjectEvent] = deque()
    running: deque[object] = deque()
    for number in range(pods):
        now = number / RATE
        pod = stock.pod(number)
        events = [stock.event("ADDED", pod)]
        stock.cluster.put(pod)
        stock.cluster.run()
        stock.cluster.effects.clear()  # tests look at them; here they would grow for ever
        bound = stock.cluster.objects["Pod", pod.key]
        if bound.spec.node_name:
            on_the_way.append(bound)
            running.append(bound)
        if len(on_the_way) > ON_THE_WAY:
            first = on_the_way.popleft()
            if stock.lots.random() < 0.05:
                on_the_way.appendleft(first)
                first = on_the_way[1]
                del on_the_way[1]
            events.append(stock.event("MODIFIED", first))
        if len(running) > alive + ON_THE_WAY:
            gone = running.popleft()
            stock.cluster.delete("Pod", gone.key)
            events.append(stock.event("DELETED", gone))
        tell(events, now)
        if (number + 1) % every == 0:
            print_line(core, number + 1, (cpu_s - last_s) / (number + 1 - last_pods), resident_mb() - before_mb)
            last_s, last_pods = cpu_s, number + 1
    core.finish()
    print_line(core, pods, (cpu_s - begun_s) / pods, resident_mb() - before_mb)


def print_line(core: ObservingCore, pods: int, cpu_s: float, megabytes: float) -> None:
    """Print how it stands."""
    results = dict(core.agreement.results)
    skipped = sum(core.agreement.skipped.values())
    click.echo(
        f"{pods:>7} pods  {cpu_s * 1000:.3f} ms CPU a pod  {megabytes:.0f} MB more  {results}  skipped {skipped}"
    )


if __name__ == "__main__":
    main()
