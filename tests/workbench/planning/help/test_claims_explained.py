"""Random clusters with devices: every count that is told of a claim is evaluated again, device by device.

Partitions with shared counters, taints and what tolerates them, administrators' access, lists of alternatives, shared
devices with capacity, devices of several nodes, all devices that match. What is taken is what the scheduler has
allocated before. Expectations are arithmetic over the slices as they were written (KEP-4381, -4815, -5055, -5018,
-4816, -5075), in the order in which k8s.io/dynamic-resource-allocation v1.36 checks, but that what is taken comes after
what is not selected; where a claim has devices is asked of the scheduler.
"""

import itertools
import json
import random
from collections import Counter, defaultdict

import pytest

from berth.config.feature_gates import feature_gates
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.free_devices import free_devices
from berth_workbench.planning.help.claims import explain_claim, sentences
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.snapshot.documents import parse_documents
from berth_workbench.snapshot.snapshot import Snapshot

PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
GATES = ("DRAAdminAccess", "DRAConsumableCapacity", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList")
CONFIG = load_config(PLAIN, "a test", feature_gates(dict.fromkeys(GATES, True)))
DRIVER = "x.com"
MEMORY = f"device.attributes['{DRIVER}'].mem >= "
NODES = ("n0", "n1", "n2")
FEW, ALL = range(4), range(4, 44)


# --- a random cluster -------------------------------------------------------------------------------------------------


def random_slices(rng):
    """A slice of its own for each node, one that two nodes share, and one whose devices say where they are."""
    for node in NODES:
        devices, counters = [], []
        if rng.random() < 0.5:
            counters = [{"name": "card", "counters": {"units": {"value": str(rng.choice((4, 6)))}}}]
        for number in range(rng.randint(1, 5)):
            device = {"name": f"d{number}", "attributes": {"mem": {"int": rng.choice((40, 80))}}}
            if counters and rng.random() < 0.7:
                amount = {"units": {"value": str(rng.choice((1, 2, 3)))}}
                device["consumesCounters"] = [{"counterSet": "card", "counters": amount}]
            elif rng.random() < 0.3:
                device |= {"allowMultipleAllocations": True, "capacity": {"band": {"value": "10"}}}
            if rng.random() < 0.25:
                device["taints"] = [{"key": "sick", "value": "yes", "effect": rng.choice(("NoSchedule", "None"))}]
            devices.append(device)
        yield from slices_of(node, devices, {"nodeName": node}, counters)
    if rng.random() < 0.5:
        shared = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "side", "operator": "In", "values": ["left"]}]}]}}  # fmt: skip
        yield from slices_of("net", [{"name": f"d{i}", "attributes": {"mem": {"int": 80}}} for i in range(2)], shared)
    if rng.random() < 0.5:
        each = [
            {"name": f"d{i}", "attributes": {"mem": {"int": 80}}, "nodeName": rng.choice((*NODES, "gone"))}
            for i in range(3)
        ]
        yield from slices_of("any", each, {"perDeviceNodeSelection": True})


def slices_of(pool, devices, where, counters=()):
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": 2 if counters else 1}
    spec = {"driver": DRIVER, "pool": of_pool, **where}
    yield {"kind": "ResourceSlice", "metadata": {"name": pool}, "spec": {**spec, "devices": devices}}
    if counters:
        made = {**spec, "sharedCounters": list(counters)}
        yield {"kind": "ResourceSlice", "metadata": {"name": f"{pool}-counters"}, "spec": made}


def random_exactly(rng, most):
    found = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": rng.randint(1, most)}
    if rng.random() < 0.5:
        found["selectors"] = [{"cel": {"expression": f"{MEMORY}{rng.choice((40, 80))}"}}]
    if rng.random() < 0.3:
        found["tolerations"] = [{"key": "sick", "operator": "Exists"}]
    if rng.random() < 0.2:
        found["capacity"] = {"requests": {"band": str(rng.choice((3, 6)))}}
    return found


def claim(name, requests):
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": requests}}}


def user_of(name):
    pod = make_pod(name).request(cpu="1")
    pod.set_spec(resourceClaims=[{"name": "g", "resourceClaimName": name}])
    return pod.document


def random_world(seed):
    """Slices, and a cluster in which some claims have devices and one, `x`, has none yet."""
    rng = random.Random(seed)
    nodes = [make_node(name).label("side", "left" if name != "n2" else "right").capacity(cpu="32", pods="99").document
             for name in NODES]  # fmt: skip
    selectors = [{"cel": {"expression": f"{MEMORY}60"}}] if rng.random() < 0.3 else []
    slices = list(random_slices(rng))
    classes = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
    taking = [claim(f"c{i}", [{"name": "r", "exactly": random_exactly(rng, 2)}]) for i in range(rng.randint(0, 5))]
    documents = [*nodes, *slices, classes, *taking, *(user_of(each["metadata"]["name"]) for each in taking)]
    cluster = cluster_of(documents)
    cluster.settle()
    exactly = random_exactly(rng, 4)
    kind = rng.random()
    if kind < 0.2:
        exactly |= {"allocationMode": "All"}
        del exactly["count"]
    elif kind < 0.35:
        exactly["adminAccess"] = True
    request = {"name": "r", "exactly": exactly}
    if 0.35 <= kind < 0.55:
        request = {"name": "r", "firstAvailable": [{"name": f"s{i}", **random_exactly(rng, 3)} for i in range(2)]}
    asked = claim("x", [request])
    cluster.create(Snapshot(list(parsed([asked, user_of("x")]))).structs())
    return slices, selectors, asked, cluster


def parsed(documents):
    return parse_documents(json.dumps({"kind": "List", "items": documents}).encode(), "a test")


def cluster_of(documents):
    return SimulatedCluster(Snapshot(list(parsed(documents))).structs(), config=CONFIG)


# --- the same, by arithmetic ------------------------------------------------------------------------------------------


class Arithmetic:
    """What slices and allocations come to."""

    def __init__(self, slices, selectors, cluster):
        self.selectors = [each["cel"]["expression"] for each in selectors]
        self.devices = {(each["spec"]["pool"]["name"], device["name"]): (each["spec"], device)
                        for each in slices for device in each["spec"].get("devices", ())}  # fmt: skip
        self.totals = {each["spec"]["pool"]["name"]: int(one["counters"]["units"]["value"])
                       for each in slices for one in each["spec"].get("sharedCounters", ())}  # fmt: skip
        self.taken, self.consumed = set(), defaultdict(int)
        for key, obj in cluster.objects.items():
            if key[0] == "ResourceClaim" and obj.status.allocation is not None:
                for result in obj.status.allocation.devices.results:
                    at = result.pool, result.device
                    if result.share_id is None:
                        self.taken.add(at)
                    else:
                        self.consumed[at] += int(result.consumed_capacity["band"])
        self.left = {pool: total - sum(map(self.units, filter(lambda at: at[0] == pool, self.taken)))
                     for pool, total in self.totals.items()}  # fmt: skip

    def units(self, at):
        return sum(int(each["counters"]["units"]["value"]) for each in self.devices[at][1].get("consumesCounters", ()))

    def reaches(self, node, at):
        spec, device = self.devices[at]
        if spec.get("perDeviceNodeSelection"):
            return device["nodeName"] == node
        return spec.get("nodeName", node) == node and ("nodeSelector" not in spec or node != "n2")

    def listed_on(self, node):
        """The devices that are looked at on a node; where each says where it is, all of a slice if any is there."""
        for at, (spec, _) in self.devices.items():
            others = [one for one, (of, _) in self.devices.items() if of is spec]
            if any(self.reaches(node, one) for one in others):
                yield at

    def why_not(self, ask, node, at):
        device = self.devices[at][1]
        for text in [*self.selectors, *(each["cel"]["expression"] for each in ask.get("selectors", ()))]:
            if device["attributes"]["mem"]["int"] < int(text.removeprefix(MEMORY)):
                return "selector", text
        if not self.reaches(node, at):
            return "node", ""
        if at in self.taken and not ask.get("adminAccess"):
            return "taken", ""
        wanted = (ask.get("capacity") or {}).get("requests", {}).get("band")
        if "capacity" not in device:
            if wanted is not None:
                return "capacity", ""
        elif self.consumed[at] + int(wanted or 10) > 10:
            return "capacity", ""
        if self.units(at) > self.left.get(at[0], 99):
            return "counters", f"{DRIVER}/{at[0]}/card"
        tainted = any(each["effect"] == "NoSchedule" for each in device.get("taints", ()))
        return ("taint", "sick=yes:NoSchedule") if tainted and not ask.get("tolerations") else None

    def leaves_traces(self, ask, node):
        """Whether the search takes counters for a device that turns out to be tainted, and keeps them, as upstream."""
        told = ((self.units(at), self.why_not(ask, node, at)) for at in self.listed_on(node))
        return any(units and why is not None and why[0] == "taint" for units, why in told)

    def on_one_node(self, ask, node):
        """How many devices an ask could have at once on a node, up to what it asks for."""
        free = [at for at in self.listed_on(node) if self.why_not(ask, node, at) is None]
        for count in range(min(len(free), ask.get("count", len(free))), 0, -1):
            for chosen in itertools.combinations(free, count):
                units = Counter()
                for at in chosen:
                    units[at[0]] += self.units(at)
                if all(amount <= self.left.get(pool, 99) for pool, amount in units.items()):
                    return count
        return 0


def check_world(seed):
    slices, selectors, asked, cluster = random_world(seed)
    known = Arithmetic(slices, selectors, cluster)
    report = explain_claim(cluster, "default/x").report
    assert report.is_complete and not report.problem, report.problem
    request = asked["spec"]["devices"]["requests"][0]
    asks = request.get("firstAvailable") or [request["exactly"]]
    seen = set()
    for ask, told in zip(asks, report.requests, strict=True):
        outcomes = {}
        for node in NODES:
            for at in known.listed_on(node):
                why = known.why_not(ask, node, at)
                before = outcomes.get(at, why)
                is_elsewhere = before is not None and before[0] == "node"
                outcomes[at] = None if None in (before, why) else why if is_elsewhere else before
        counted = Counter(filter(None, outcomes.values()))
        assert {(each.check, each.what): each.devices for each in told.refused} == counted
        assert (told.devices, told.would_do) == (len(outcomes), len(outcomes) - counted.total())
        assert all(len(each.named) == min(each.devices, 3) for each in told.refused)
        if told.mode != "All":
            most = {node: known.on_one_node(ask, node) for node in NODES}
            fits_on = sum(count == ask["count"] for count in most.values())
            if any(known.leaves_traces(ask, node) for node in NODES):
                assert told.most <= max(most.values()) and told.fits_on <= fits_on
            else:
                assert (told.most, told.fits_on) == (max(most.values()), fits_on), most
            assert not told.most or most[told.node] >= told.most
        seen |= {each.check for each in told.refused} | {told.mode, "admin" if told.admin_access else ""}
    check_free_devices(known, cluster)
    cluster.settle()
    node = cluster.placements["default/x"]
    assert bool(node) == bool(report.fits_on) and (not node or node in report.fits_on), "as the scheduler decides"
    assert all(map(str.strip, sentences(report)))
    return seen | {"list"} if len(asks) > 1 else seen


def check_free_devices(known, cluster):
    """What is free of the class, on each node at once, and what counters and shared devices have left."""
    found, everything = free_devices(cluster), {"count": 32}
    (of_class,) = found.classes
    usual = {node: {at: known.why_not(everything, node, at) for at in known.listed_on(node)} for node in NODES}
    free = {at for said in usual.values() for at, why in said.items() if why is None}
    there = {
        at for said in usual.values() for at, why in said.items() if why is None or why[0] not in ("selector", "node")
    }
    assert (of_class.devices, of_class.free) == (len(there), len(free))
    for each in of_class.by_node:
        assert each.at_once <= known.on_one_node(everything, each.node)
        if not known.leaves_traces(everything, each.node):
            assert each.at_once == known.on_one_node(everything, each.node)
    assert {each.of: each.left for each in found.counters} == {
        f"{DRIVER}/{pool}/card": left for pool, left in known.left.items()}  # fmt: skip
    shared = {f"{DRIVER}/{at[0]}/{at[1]}": 10 - known.consumed[at]
              for at, (_, device) in known.devices.items() if "capacity" in device}  # fmt: skip
    assert {each.of: each.left for each in found.shared} == shared


@pytest.mark.parametrize("seed", FEW)
def test_what_is_told_of_a_claim_is_so(seed):
    check_world(seed)


@pytest.mark.long
def test_what_is_told_of_claims_is_so_in_forty_clusters():
    seen = set().union(*map(check_world, ALL))
    assert seen >= {"taken", "selector", "node", "capacity", "counters", "taint", "All", "admin", "list"}, seen
