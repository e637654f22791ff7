"""What the guests of `plugins/` cost a pod: in their plain form, with columns, and the default profile without them.

    python benchmarks/guests.py [--nodes 5000] [--pods 200] [--runs 5] [--no-plain] [GUEST[/CASE] ...]

For each guest one cluster, for some of them several: nodes in three regions of four zones, the objects that it goes by,
pods that run, and pods that come. They are scheduled as the default profile does it and with the guest besides, in
turn, again and again, and once, some of them, with the guest's plain forms alone (no columns, no promises). Bindings
are answered at once and come back as watch events. Measured is the CPU time of this process from the first pod to the
last, and told the median.

Prints a table in Markdown, in milliseconds a pod: without the guest, and how much more with it.
"""

import argparse
import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, NamedTuple

from berth.api.codec import decode
from berth.config.load import load_config
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.loader import ENTRY_POINT_GROUP, installed_plugins
from berth.framework.preemption import VictimRules
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from berth_workbench.bench import long_lived

Json = dict[str, Any]

PLUGINS = Path(__file__).parents[1] / "packages/plugins"
FASTER_FORMS = (
    "filter_columns", "filter_row", "score_columns", "score_row", "signature", "promises", "is_affected_by",
)  # fmt: skip
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
REGIONS, ZONES_EACH = 3, 4
LONG_AGO = 1_000_000_000
PLAIN_PODS = 5
"""Plain forms are asked about so many pods: one may cost seconds."""
WARM_UP = 10
"""So many pods are scheduled before the clock runs."""


class GuestScenario(NamedTuple):
    """What one guest is measured with."""

    make: Callable[[int, int], Iterator[Json]]
    """Manifests, given how many nodes there are and how many pods come: what the guest goes by, and the pods."""
    args: Json | None = None
    points: Mapping[str, bool] = {}
    """Plugins that make way for it (`disabled`): by name, whether without the guest as well."""
    load: Callable[[int], Json] | None = None
    """What a load watcher says of so many nodes."""
    between: Callable[[int], Json] | None = None
    """An object that is put between any two pods, given their number; the pods come one by one then."""


# --- objects ----------------------------------------------------------------------------------------------------------


def manifest(kind: str, api_version: str, name: str, namespace: str = "", **fields: Any) -> Json:
    """Return an object; its uid is made of its kind and name."""
    metadata: Json = {"name": name, "uid": f"{kind}/{namespace}/{name}"} | (
        {"namespace": namespace} if namespace else {}
    )
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(number: int) -> Json:
    """Return a node of 16 CPU in one of the zones."""
    name, zone = node_name(number), number % (REGIONS * ZONES_EACH)
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    made = manifest("Node", "v1", name, status={"capacity": room, "allocatable": room})
    labels = {"kubernetes.io/hostname": name, REGION: f"r{zone % REGIONS}", ZONE: f"z{zone}"}
    made["metadata"]["labels"] = labels
    return made


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05d}"


def pod(name: str, namespace: str = "default", on: str = "", labels: Mapping[str, str] = {}, **spec: Any) -> Json:
    """Return a pod of 100m CPU; with `on` it runs there."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}]
    spec = {"containers": containers, **spec} | ({"nodeName": on} if on else {})
    made = manifest("Pod", "v1", name, namespace, spec=spec, status={"phase": "Running" if on else "Pending"})
    made["metadata"] |= {"labels": dict(labels), "creationTimestamp": "2026-01-01T00:00:00Z"}
    return made


def plain_pods(_nodes: int, pods: int) -> Iterator[Json]:
    """Pods that are alike."""
    yield from (pod(f"p-{number:05d}") for number in range(pods))


# --- what each guest goes by ------------------------------------------------------------------------------------------


def quotas(nodes: int, pods: int) -> Iterator[Json]:
    """Fifty namespaces with a quota each, in which a pod runs on each node, and pods come in turn."""
    for number in range(50):
        bounds = {"min": {"cpu": "1000", "memory": "4000Gi"}, "max": {"cpu": "2000", "memory": "9000Gi"}}
        yield manifest("ElasticQuota", "scheduling.x-k8s.io/v1alpha1", "quota", f"team-{number}", spec=bounds)
    for number in range(nodes):
        yield pod(f"r-{number:05d}", f"team-{number % 50}", on=node_name(number))
    yield from (pod(f"p-{number:05d}", f"team-{number % 50}") for number in range(pods))


def borrowed_quotas(nodes: int, pods: int) -> Iterator[Json]:
    """Nodes full of pods whose namespaces have borrowed, and pods of others that take back what is theirs."""
    share = {"cpu": str(16 * nodes // 10), "memory": "9000Gi", "ephemeral-storage": "9000Gi"}
    for number in range(10):
        yield manifest("ElasticQuota", "scheduling.x-k8s.io/v1alpha1", "quota", f"team-{number}", spec={"min": share})
    for number in range(4 * nodes):
        yield large(f"r-{number:05d}", f"team-{number % 5}", on=node_name(number // 4))
    for number in range(pods):
        yield large(f"p-{number:05d}", f"team-{5 + number % 5}", priority=10)


def app_groups(nodes: int, pods: int) -> Iterator[Json]:
    """An application of three workloads, each with a hundred pods all over the nodes, that grows."""
    workloads = ["web", "api", "db"]
    needs = {"web": {"api": 60, "db": 80}, "api": {"db": 60}, "db": {}}

    def listed(key: str, names: list[str]) -> Json:
        origins = [
            {"origin": one, "costList": [
                {"destination": other, "networkCost": 10 + 7 * (a + b) % 50} for b, other in enumerate(names)]}
            for a, one in enumerate(names)
        ]  # fmt: skip
        return {"topologyKey": key, "originList": origins}

    lists = [listed(REGION, [f"r{n}" for n in range(REGIONS)]), listed(ZONE, [f"z{n}" for n in range(12)])]
    weights = [{"name": "UserDefined", "topologyList": lists}]
    yield manifest("NetworkTopology", "networktopology.diktyo.x-k8s.io/v1alpha1", "nt-default", "default",
                   spec={"weights": weights})  # fmt: skip
    spec = {"workloads": [
        {"workload": {"selector": name}, "dependencies": [
            {"workload": {"selector": other}, "maxNetworkCost": most} for other, most in needs[name].items()]}
        for name in workloads]}  # fmt: skip
    order = [{"workload": {"selector": name}, "index": place} for place, name in enumerate(sorted(workloads))]
    yield manifest("AppGroup", "appgroup.diktyo.x-k8s.io/v1alpha1", "shop", "default", spec=spec,
                   status={"topologyOrder": order})  # fmt: skip

    def labels(number: int) -> Json:
        return {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": workloads[number % 3]}

    for number in range(300):
        yield pod(f"r-{number:05d}", on=node_name(number * 37 % nodes), labels=labels(number))
    yield from (pod(f"p-{number:05d}", labels=labels(number)) for number in range(pods))


def gangs(_nodes: int, pods: int) -> Iterator[Json]:
    """Groups of ten."""
    for number in range(pods // 10):
        yield manifest("PodGroup", "scheduling.x-k8s.io/v1alpha1", f"g{number}", "default", spec={"minMember": 10})
    for number in range(pods // 10 * 10):
        yield pod(f"p-{number:05d}", labels={"scheduling.x-k8s.io/pod-group": f"g{number // 10}"})


def seccomp(nodes: int, pods: int) -> Iterator[Json]:
    """Pods of four profiles, one on each node."""
    for number in range(4):
        calls = [f"call{n}" for n in range(number, 200, number + 1)]
        yield manifest("SeccompProfile", "security-profiles-operator.x-k8s.io/v1beta1", f"p{number}", "default",
                       spec={"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": calls}]})  # fmt: skip

    def context(number: int) -> Json:
        path = f"operator/default/p{number % 4}.json"
        return {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}

    for number in range(nodes):
        yield pod(f"r-{number:05d}", on=node_name(number), securityContext=context(number))
    yield from (pod(f"p-{number:05d}", securityContext=context(number)) for number in range(pods))


def owned_pods(nodes: int, pods: int) -> Iterator[Json]:
    """A workload that has a pod on every second node, and grows."""
    for name, where in [
        *((f"r-{number:05d}", node_name(number)) for number in range(0, nodes, 2)),
        *((f"p-{number:05d}", "") for number in range(pods)),
    ]:
        yield pod(name, on=where, labels={"app": "web"})


def tenants(nodes: int, pods: int) -> Iterator[Json]:
    """A hundred namespaces, in each of which pods run, and pods come."""
    for number in range(nodes):
        yield pod(f"r-{number:05d}", f"team-{number % 100}", on=node_name(number))
    yield from (pod(f"p-{number:05d}", f"team-{number % 100}") for number in range(pods))


def full_nodes(nodes: int, pods: int) -> Iterator[Json]:
    """Nodes full of pods of which a budget lets go half, and pods that preempt them."""
    for number in range(nodes):
        for part in range(4):
            labels = {"app": f"a{number % 20}"}
            yield large(f"r-{number:05d}-{part}", on=node_name(number), labels=labels, priority=part)
    for number in range(20):
        status = {"disruptionsAllowed": nodes // 10}
        spec = {"selector": {"matchLabels": {"app": f"a{number}"}}}
        yield manifest("PodDisruptionBudget", "policy/v1", f"b{number}", "default", spec=spec, status=status)
    yield from (large(f"p-{number:05d}", priority=10) for number in range(pods))


def large(name: str, namespace: str = "default", **fields: Any) -> Json:
    """Return a pod that takes a quarter of a node."""
    made = pod(name, namespace, **fields)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    return made


def varied_pods(_nodes: int, pods: int) -> Iterator[Json]:
    """Pods of which no two request the same."""
    for number in range(pods):
        made = pod(f"p-{number:05d}")
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{100 + number}m"
        yield made


def measured_load(nodes: int) -> Json:
    """Return what a load watcher says: CPU and memory of every node."""

    def figures(number: int) -> list[Json]:
        return [
            {"type": kind, "operator": operator, "value": float((number * step) % 60)}
            for step, kind in ((7, "CPU"), (11, "Memory"))
            for operator in ("AVG", "STD")
        ]

    data = {node_name(number): {"metrics": figures(number)} for number in range(nodes)}
    return {"window": {"end": LONG_AGO}, "data": {"NodeMetricsMap": data}}


def numa_zones(nodes: int, pods: int) -> Iterator[Json]:
    """Two zones on each node, and Guaranteed pods of two containers, each of which must have room in one."""
    yield from (numa_report(number) for number in range(nodes))
    asked = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": name, "resources": {"requests": asked, "limits": asked}} for name in ("c", "d")]
    yield from (pod(f"p-{number:05d}", containers=containers) for number in range(pods))


def numa_report(number: int, free: int = 6) -> Json:
    """Return what an agent reports of a node."""
    attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container"}
    listed = [{"name": name, "value": value} for name, value in attributes.items()]
    amounts = (("cpu", f"{free + number % 3}"), ("memory", "32Gi"))
    resources = [{"name": name, "allocatable": most, "available": most} for name, most in amounts]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)]
    return manifest("NodeResourceTopology", "topology.node.k8s.io/v1alpha2", node_name(number),
                    attributes=listed, zones=zones)  # fmt: skip


RESERVING = {"cacheResyncPeriodSeconds": 5, "cache": {"informerMode": "Shared"}}
POOLS = [{"name": name, "selector": {"matchLabels": {REGION: name}}} for name in ("r1", "r2", "r0")]
LIMITS = [{"topologyKey": "kubernetes.io/hostname", "max": 2, "labelKeys": ["app"]}]
TYPICAL = [{"requests": {"cpu": str(cpu), "memory": f"{cpu * 2}Gi"}, "weight": cpu} for cpu in range(1, 11)]
WATCHER = {"watcherAddress": "http://127.0.0.1:1"}
SCENARIOS: Mapping[str, GuestScenario] = {
    "BudgetSafePreemption": GuestScenario(full_nodes, points={"DefaultPreemption": False}),
    "CapacityScheduling": GuestScenario(quotas, points={"DefaultPreemption": False}),
    "CapacityScheduling/preempts": GuestScenario(borrowed_quotas, points={"DefaultPreemption": False}),
    "NetworkOverhead": GuestScenario(app_groups),
    "TopologicalSort": GuestScenario(app_groups, points={"PrioritySort": False}),
    "Coscheduling": GuestScenario(gangs, points={"PrioritySort": False}),
    "FairShares": GuestScenario(tenants, points={"PrioritySort": False}),
    "GpuFragmentation": GuestScenario(plain_pods, {"resources": [{"name": "cpu"}], "typicalPods": TYPICAL}),
    "GpuFragmentation/varied": GuestScenario(varied_pods, {"resources": [{"name": "cpu"}], "typicalPods": TYPICAL}),
    "LoadVariationRiskBalancing": GuestScenario(plain_pods, WATCHER, load=measured_load),
    "LowRiskOverCommitment": GuestScenario(plain_pods, WATCHER, load=measured_load),
    "NodeResourceTopologyMatch": GuestScenario(numa_zones, RESERVING),
    "NodeResourceTopologyMatch/reports": GuestScenario(
        numa_zones, RESERVING, between=lambda number: numa_report(number, free=5)
    ),
    "NodeResourcesAllocatable": GuestScenario(plain_pods),
    "PodState": GuestScenario(plain_pods),
    "PoolsInOrder": GuestScenario(plain_pods, {"pools": POOLS}),
    "PreemptionToleration": GuestScenario(plain_pods, points={"DefaultPreemption": False}),
    "PreemptionToleration/preempts": GuestScenario(full_nodes, points={"DefaultPreemption": False}),
    "QOSSort": GuestScenario(plain_pods, points={"PrioritySort": False}),
    "SySched": GuestScenario(seccomp),
    "TargetLoadPacking": GuestScenario(plain_pods, WATCHER, load=measured_load),
    "WorkloadLimit": GuestScenario(owned_pods, {"limits": LIMITS}),
}


# --- measuring --------------------------------------------------------------------------------------------------------


def guests() -> Registry:
    """Return the guests of this tree, installed or not."""
    if str(PLUGINS / "src") not in sys.path:
        sys.path.insert(0, str(PLUGINS / "src"))
    with (PLUGINS / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["project"]["entry-points"][ENTRY_POINT_GROUP]
    return installed_plugins([EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in found.items()])


def in_plain_form(guest: type) -> type:
    """Return a guest without columns and promises; one that has no plain form keeps its columns."""
    left_out = (*FASTER_FORMS, "__dict__", "__weakref__", "__orig_bases__")
    if not hasattr(guest, "filter") and not hasattr(guest, "score"):
        left_out = ("promises", *left_out[len(FASTER_FORMS) :])
    classes = [each for each in reversed(guest.mro()) if each.__module__.startswith("berth_plugins.")]
    methods = {key: value for each in classes for key, value in vars(each).items() if key not in left_out}
    rules = (VictimRules,) if VictimRules in guest.mro() else ()  # it has methods of its own, for all rules
    return type(guest.__name__, rules, methods)


def config_of(scenario: GuestScenario, guest: str | None) -> Json:
    """Return the default profile, with the guest unless that is None."""
    disabled = [name for name, always in scenario.points.items() if guest is not None or always]
    points: Json = {"disabled": [{"name": name} for name in disabled]}
    profile: Json = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": points}}
    if guest is not None:
        points["enabled"] = [{"name": guest}]
        if scenario.args is not None:
            profile["pluginConfig"] = [{"name": guest, "args": scenario.args}]
    return {**CONFIG, "profiles": [profile]}


def ms_per_pod(guest: str, nodes: int, pods: int, found: Registry | None, warm_up: int = WARM_UP) -> float:
    """Schedule the pods of a guest's case, with the guest out of a registry or without; return what each costs."""
    scenario = SCENARIOS[guest]
    registry = in_tree_registry() if found is None else in_tree_registry().merge(found)
    config = load_config(config_of(scenario, None if found is None else name_in(guest)), "the benchmark's config")
    cluster = VirtualCluster(registry=registry, config=config, check_promises=0)
    resources = cluster.core.resources
    for resource in resources.polled:
        if scenario.load is not None:
            cluster.put(resource.read(scenario.load(nodes)))
    for number in range(nodes):
        cluster.put(decode("Node", node(number)))
    coming = []
    for each in scenario.make(nodes, pods + warm_up):
        custom = resources.of_manifest(each)
        if custom is not None:
            cluster.put(custom.read(each))
        if each["kind"] == "Pod":
            made = decode("Pod", each)
            (cluster.put if made.spec.node_name else coming.append)(made)
    for made in coming[:warm_up]:
        cluster.put(made)
    cluster.run()
    told = []
    for number, made in enumerate(coming[warm_up:]):
        told.append([made])
        if scenario.between is not None and (report := scenario.between(number)):
            custom = resources.of_manifest(report)
            told[-1] += [custom.read(report)] if custom is not None else []
    with long_lived():
        began = time.process_time()
        for objects in told:
            for each in objects:
                cluster.put(each)
            if scenario.between is not None:
                cluster.run()
        cluster.run()
        seconds = time.process_time() - began
    missing = [name for name, where in cluster.nodes_of().items() if not where]
    assert not missing, f"{guest}: {len(missing)} pods have no node, {missing[0]} among them"
    return 1000 * seconds / (len(coming) - warm_up)


def name_in(case: str) -> str:
    """Return the guest that a case is about."""
    return case.partition("/")[0]


def row(guest: str, nodes: int, pods: int, runs: int, *, is_plain: bool) -> str:
    """Return a line of the table."""
    loaded, name = guests(), name_in(guest)
    columns, plain = loaded.factory(name), in_plain_form(loaded.factory(name))
    variants = (None, Registry({name: columns}, "a benchmark"))
    found = [[ms_per_pod(guest, nodes, pods, each) for each in variants] for _ in range(runs)]
    without = statistics.median(run[0] for run in found)
    more = statistics.median(run[1] - run[0] for run in found)
    if not is_plain:
        return f"| {guest} | {without:.3f} | {more:+.3f} | |"
    in_plain = ms_per_pod(guest, nodes, PLAIN_PODS, Registry({name: plain}, "a benchmark"), warm_up=PLAIN_PODS)
    return f"| {guest} | {without:.3f} | {more:+.3f} | {in_plain - without:+.3f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-plain", action="store_true", help="leave out the plain forms, which take seconds")
    parser.add_argument("guests", nargs="*", metavar="GUEST", help=", ".join(SCENARIOS))
    options = parser.parse_args()
    if unknown := set(options.guests) - set(SCENARIOS):
        parser.error(f"no such guest: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    print(f"{options.pods} pods on {options.nodes} nodes, CPU in ms a pod, median of {options.runs} runs in turn\n")
    print("| guest | without | more with it | more in plain form |\n| --- | ---: | ---: | ---: |", flush=True)
    for guest in options.guests or SCENARIOS:
        print(row(guest, options.nodes, options.pods, options.runs, is_plain=not options.no_plain), flush=True)


if __name__ == "__main__":
    main()
