"""`berth plugins --profile`: what each plugin costs while the pending pods of a cluster, or replicas, are tried.

Measured is the scheduler itself, in memory: what `berth run` measures in one attempt of ten is measured in each. A node
is kept where Filter or Score needed a plugin's answer about it and did not ask, since it was known from before.
"""

import copy
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import msgspec
import numpy as np
from msgspec.structs import force_setattr

from berth.api.pod import Pod
from berth.cli.option_rules import only_with
from berth.cli.output import Output, console_for, is_structured, print_structured
from berth.cli.plugins import IN_TREE_SHOWN
from berth.cli.setup import read_setup
from berth.cli.table import Table, TableColumn
from berth.core.assembly import build_core
from berth.core.options import CoreOptions, with_changed_options
from berth.core.timed_runner import TimedRunner
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument, Observed, Times
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FeasibleNodes
from berth.framework.registry import IN_TREE
from berth.framework.setup import Setup
from berth_workbench.cli.cluster_input import cluster_options, read_cluster_given
from berth_workbench.cli.progress import EndedEarly, nothing_by_then, working
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.claims import has_own_claims
from berth_workbench.simulation.measures import is_pending
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

if TYPE_CHECKING:
    from berth_workbench.snapshot.snapshot import Snapshot

BY_NODE = ("Filter", "Score")


class PluginCost(msgspec.Struct, frozen=True, rename="camel"):
    """What one plugin cost. `calls` are those of its methods, a plain `filter` or `score` once for each node."""

    name: str
    origin: str
    calls: int
    cpu_ms_per_pod: float
    cpu_ms_per_pod_by_point: dict[str, float]
    nodes_needed: int
    nodes_asked: int
    """About how many nodes, all pods together, Filter and Score needed the plugin's answer, and asked for it."""
    kept: float | None
    """The part that was not asked for; None where none was needed."""


class PluginProfile(msgspec.Struct, frozen=True, rename="camel"):
    """What the plugins cost that had something to do, the dearest first."""

    pods: int
    attempts: int
    placed: int
    nodes: int
    cpu_ms_per_pod: float
    plugins: tuple[PluginCost, ...]


class _Meter(Instrument):
    """Adds up what plugins cost, by plugin and point."""

    def __init__(self) -> None:
        self.calls, self.asked = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.needed: list[tuple[str, tuple[str, ...], Times]] = []
        self.pods: set[str] = set()
        self.attempts = 0

    def attached(self, observed: Observed) -> None:
        self.core = observed

    def decided(self, decision: Decision, seconds: float) -> None:
        self.attempts += 1
        self.pods.add(decision.pod.key)

    def evaluations(self, profile: str, point: str, plugins: tuple[str, ...]) -> Times:
        self.needed.append((point, plugins, times := Times()))
        return times

    def plugin_run(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.calls[plugin, point] += 1
        self.seconds[plugin, point] += seconds

    def cost(self, name: str, origin: str) -> PluginCost:
        """Return what a plugin has cost."""
        plain = Counter[tuple[str, str]]()
        for profile in self.core.profiles.values():
            for point, runners in (("Filter", profile.filters), ("Score", profile.scorers)):
                plain.update({(each.name, point): each.node_calls for each in runners if each.node_calls})
        calls, asked = {**self.calls, **plain}, Counter({**self.asked, **plain})
        needed = sum(times.count for point, names, times in self.needed if point in BY_NODE and name in names)
        per_pod = {point: 1000 * s / max(len(self.pods), 1) for (of, point), s in self.seconds.items() if of == name}
        answers = sum(asked[name, point] for point in BY_NODE)
        return PluginCost(
            name,
            origin,
            sum(count for (of, _), count in calls.items() if of == name),
            round(sum(per_pod.values()), 4),
            {point: round(ms, 4) for point, ms in per_pod.items()},
            needed,
            answers,
            round(max(0.0, 1 - answers / needed), 4) if needed else None,
        )


class _EachTime(TimedRunner):
    """Measures plugins in each attempt, and counts the nodes that column forms are asked about."""

    def __init__(self, profile: str, meter: _Meter, clock: Callable[[], float]) -> None:
        super().__init__(profile, meter, clock)
        self._meter = meter

    def pre_enqueue_begins(self) -> None:
        self._is_timed = True

    def attempt_begins(self, state: CycleState) -> None:
        self._is_timed = True
        force_setattr(state, "is_timed", True)

    def time_plugin(self, name: str, point: str, run: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        about = args[-1]
        if isinstance(about, FeasibleNodes):
            self._meter.asked[name, point] += about.count
        elif isinstance(about, int):
            self._meter.asked[name, point] += 1
        elif isinstance(about, slice | np.ndarray):
            self._meter.asked[name, point] += int(np.count_nonzero(self._meter.core.table.valid[about]))
        return super().time_plugin(name, point, run, args)


def profile_plugins(
    snapshot: "Snapshot",
    setup: Setup,
    *,
    replicas: int = 0,
    watch: WorkWatch = UNWATCHED,
    clock: Callable[[], float] = time.thread_time,
) -> PluginProfile:
    """Try the pending pods of a cluster, or in their place so many replicas of pods that run; `clock` is CPU time."""
    meter = _Meter()

    def metered(options: CoreOptions) -> CoreOptions:
        watching = replace(options.instrumentation, make_runner=lambda name: _EachTime(name, meter, clock))
        return replace(options, instrumentation=watching)

    build = with_changed_options(build_core, metered)
    cluster = Site.of(snapshot, setup, watch=watch, instrument=meter, build=build).cluster
    if replicas:
        for pod in filter(is_pending, cluster.without_node):
            cluster.withdraw(pod.key)
        cluster.add(_replicas(list(cluster.pods.values()), replicas))
    watch.begin("trying pods", len(cluster.core.queue))
    cluster.settle(watch=watch)
    origins = {name: setup.registry.origin(name) if name in setup.registry else IN_TREE for name, _ in meter.calls}
    costs = [meter.cost(name, IN_TREE_SHOWN if origin == IN_TREE else origin) for name, origin in origins.items()]
    placements = cluster.placements
    return PluginProfile(
        len(meter.pods),
        meter.attempts,
        sum(bool(placements.get(key)) for key in meter.pods),
        len(cluster.nodes),
        round(sum(each.cpu_ms_per_pod for each in costs), 4),
        tuple(sorted(costs, key=lambda each: -each.cpu_ms_per_pod)),
    )


def _replicas(pods: Sequence[Pod], count: int) -> Iterator[Pod]:
    """Yield pending copies of running pods, several of some if there are too few."""
    known = [pod for pod in pods if pod.spec.node_name and not (follows_its_node(pod) or has_own_claims(pod))]
    rng = random.Random(0)
    drawn = rng.sample(known, count) if count <= len(known) else rng.choices(known, k=count) if known else []
    for number, pod in enumerate(drawn):
        name = f"{pod.metadata.name}-replica-{number}"
        metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}/{number}")
        yield Pod(metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))


def extend(plugins: click.Command) -> click.Command:
    """`berth plugins` with `--profile`, and the cluster and the pods for it."""
    lists = plugins.callback
    assert lists is not None

    @only_with(cluster="profile", kubeconfig="profile", context="profile", replicas="profile")
    def either(
        *, profile: bool, cluster: tuple[str, ...], kubeconfig: str, context: str, replicas: int | None, **given: Any
    ) -> None:
        if not profile:
            lists(**given)
            return
        setup = read_setup(given["config_file"], given["plugins"], given["feature_gates"])
        snapshot = read_cluster_given(cluster, kubeconfig, context, setup=setup)
        with working("trying pods") as watch:
            try:
                found = profile_plugins(snapshot, setup, replicas=replicas or 0, watch=watch)
            except StoppedError:
                raise EndedEarly(nothing_by_then()) from None
        _print(found, given["output"])

    extended = copy.copy(plugins)
    extended.callback = either
    asked = click.Option(["--profile"], is_flag=True, help="Try pods, and tell what each plugin costs.")
    pods = click.Option(
        ["--pods", "replicas"],
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="With --profile: try N replicas of pods that run, instead of the pods that are pending.",
    )
    extended.params = [*plugins.params, asked, pods]
    return cluster_options(extended)


def _print(found: PluginProfile, output: Output) -> None:
    if is_structured(output):
        print_structured(found, output, (each.name for each in found.plugins))
        return
    if not found.pods:
        click.echo("No pod is pending; --pods N tries N replicas of pods that run.")
        return
    numbers = [TableColumn(each, "number") for each in ("Calls", "CPU ms/pod", "Nodes needed", "Asked", "Kept")]
    title = (
        f"{found.pods:,} pods tried in {found.attempts:,} attempts on {found.nodes:,} nodes, {found.placed:,} placed"
    )
    table = Table("Plugin", *numbers, title=title)
    for each in found.plugins:
        kept = "" if each.kept is None else f"{100 * each.kept:.1f} %"
        nodes = (f"{each.nodes_needed:,}", f"{each.nodes_asked:,}") if each.nodes_needed else ("", "")
        table.add(each.name, f"{each.calls:,}", f"{each.cpu_ms_per_pod:.3f}", *nodes, kept)
    table.add("All plugins", "", f"{found.cpu_ms_per_pod:.3f}", "", "", "")
    table.print(console_for(output))
