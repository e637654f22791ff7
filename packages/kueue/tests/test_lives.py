"""What holds of all queues, whatever the records say: checked on the worlds of recorded cases, by other means.

Usage is added up anew from the workloads and the objects, whether a target is needed by plain arithmetic over the tree.
"""

import itertools
import re
from functools import cache

import msgspec
import pytest

from berth.api.codec import ObjectError
from berth_kueue.amounts import amount_of
from berth_kueue.decide import cycle_record, decide_case
from berth_kueue.lives import Queues, QueueStepError
from berth_kueue.model import KueueWorkload
from berth_kueue.world import QueueNode
from tests.conformance.records import cases
from tests.effort import SHARE

THEMES = ("quota", "preemption", "fair", "lives")


@cache
def some(theme, every=16 * SHARE):
    """Every so many cases of a theme, without gates and records."""
    chosen = [case for case in cases(f"kueue/{theme}") if "featureGates" not in case["config"]]
    return [{key: case[key] for key in ("name", "config", "objects", "steps")} for case in chosen[::every]]


class PlainTree:
    """Quota and usage of each node, worked out from specs and workloads alone."""

    def __init__(self, queues):
        self.queues = queues
        self.held = {}
        for workload in queues.workloads.values():
            if workload.holds_quota and workload.admission.cluster_queue in queues.world.queues:
                self._count(workload)

    def _count(self, workload):
        reclaimed = workload.reclaimable
        counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
        for given in workload.admission.pod_set_assignments:
            pods = given.count if given.count is not None else counts[given.name]
            left = min(pods, counts[given.name] - min(counts[given.name], reclaimed.get(given.name, 0)))
            for resource, quantity in given.resource_usage.items():
                place = workload.admission.cluster_queue, (given.flavors.get(resource), resource)
                amount = amount_of(resource, quantity)
                self.held[place] = self.held.get(place, 0) + (amount if left == pods else amount // pods * left)

    def subtree(self, node, fr):
        own = node.quotas.get(self.queues.world.frs.get(fr))
        total = own.nominal if own is not None else 0
        return total + sum(self.subtree(child, fr) - self.kept(child, fr) for child in children(node))

    def kept(self, node, fr):
        own = node.quotas.get(self.queues.world.frs.get(fr))
        if own is None or own.lending is None:
            return 0
        return max(0, self.subtree(node, fr) - own.lending)

    def usage(self, node, fr):
        if isinstance(node, QueueNode):
            return self.held.get((node.name, fr), 0)
        return sum(max(0, self.usage(child, fr) - self.kept(child, fr)) for child in children(node))

    def available(self, node, fr):
        if node.parent is None:
            return self.subtree(node, fr) - self.usage(node, fr)
        own, kept, used = node.quotas.get(self.queues.world.frs.get(fr)), self.kept(node, fr), self.usage(node, fr)
        above = self.available(node.parent, fr)
        if own is not None and own.borrowing is not None:
            above = min(above, self.subtree(node, fr) - kept - max(0, used - kept) + own.borrowing)
        return max(0, kept - used) + above


def children(node):
    return [*getattr(node, "cohorts", {}).values(), *getattr(node, "queues", {}).values()]


@pytest.mark.parametrize("theme", THEMES)
def test_usage_adds_up_at_every_node_after_every_step(theme):
    looked = 0
    for case in some(theme):
        queues = Queues(case["objects"], case["config"])
        for step in case["steps"]:
            queues.step(step)
            queues.world.refresh()
            plain = PlainTree(queues)
            for node in (*queues.world.queues.values(), *queues.world.cohorts.values()):
                for number, fr in enumerate(queues.world.fr_names):
                    assert node.usage[number] == plain.usage(node, fr), (case["name"], step, node.name, fr)
                    assert node.subtree[number] == plain.subtree(node, fr), (case["name"], step, node.name, fr)
                    looked += 1
    assert looked > 500


@pytest.mark.parametrize("theme", ["preemption", "fair"])
def test_nobody_is_preempted_who_need_not_be(theme):
    looked = 0
    for case in some(theme, 4 * SHARE):
        queues = Queues(case["objects"], case["config"])
        for step in case["steps"]:
            before = queues.copy() if step["op"] == "cycle" else None
            result = queues.step(step)
            for entry in result.processed if result is not None else ():
                if entry.result == "preempting" and entry.first is None:
                    looked += is_just_enough(before, entry)
    assert looked > 20


def is_just_enough(queues, entry):
    """Check that all targets together make room, and that none can be left out."""
    wanted = {queues.world.fr_names[fr]: amount for fr, amount in entry.assignment.amounts.items()}
    wanted = {fr: amount for fr, amount in wanted.items() if fr[1] != "pods"}  # Not counted where targets are sought.

    def room(targets):
        """Whether there is room without these, and whether without borrowing."""
        left = queues.copy()
        for target in targets:
            del left.workloads[target.info.key]
        node, plain = left.world.queues[entry.queue], PlainTree(left)
        fits = all(amount <= max(0, plain.available(node, fr)) for fr, amount in wanted.items())
        return fits, all(plain.usage(node, fr) + amount <= plain.subtree(node, fr) for fr, amount in wanted.items())

    fits, is_own = room(entry.targets)
    assert fits, entry.info.key
    for target in entry.targets:
        fits, still_own = room([other for other in entry.targets if other is not target])
        # Targets that were sought without borrowing leave nothing to borrow; one less, and it fits by borrowing only.
        assert not fits or (is_own and not still_own), (entry.info.key, target.info.key)
    return len(entry.targets)


@pytest.mark.parametrize("theme", THEMES)
def test_a_copy_goes_on_as_the_original_and_leaves_it_alone(theme):
    for case in some(theme):
        queues = Queues(case["objects"], case["config"])
        for number, step in enumerate(case["steps"]):
            copied = queues.copy()
            told = [
                cycle_record(each, result, number)
                for each in (copied, queues)
                if (result := each.step(step)) is not None
            ]
            assert told[:1] == told[1:], (case["name"], number)


@pytest.mark.parametrize("theme", THEMES)
def test_what_settles_by_what_changed_settles_as_a_whole(theme):
    for case in some(theme):
        by_change, whole = (Queues(case["objects"], case["config"]) for _ in range(2))
        for number, step in enumerate(case["steps"]):
            whole.unsettled.update(whole.workloads)
            results = [each.step(step) for each in (by_change, whole)]
            if results[0] is not None:
                assert cycle_record(by_change, results[0], number) == cycle_record(whole, results[1], number)


NAMES = re.compile(r"\b(cq-[a-f]|lq-[a-f]|w\d\d|root|mid\d|low\d|all|left|right|[fg]\d|ghost)\b")


def renamed(case):
    """The same case with other names, so that both can stand in one world."""
    return msgspec.json.decode(NAMES.sub(r"x\1", msgspec.json.encode(case).decode()))


def segments(case):
    """The steps between cycles; time stands still, and `*` is spelt out, as it means the case's own workloads."""
    objects = [*case["objects"], *(step["object"] for step in case["steps"] if "object" in step)]
    own = sorted({f"{o['metadata']['namespace']}/{o['metadata']['name']}" for o in objects if o["kind"] == "Workload"})
    found = [[]]
    for step in case["steps"]:
        if step["op"] == "cycle":
            found.append([])
        elif step.get("workload") == "*":
            found[-1] += ({"op": step["op"], "workload": name} for name in own)
        elif step["op"] != "advance":
            found[-1].append(step)
    return found[:-1]


def lived(cases_, config):
    """Live cases in one world, and return for each cycle what was decided and how things stand."""
    queues = Queues([o for case in cases_ for o in case["objects"]], config)
    told = []
    for steps in zip(*map(segments, cases_), strict=False):
        for step in itertools.chain(*steps):
            queues.step(step)
        record = cycle_record(queues, queues.cycle(), 0)
        entries = {entry["workload"]: entry for entry in record["entries"]}
        told.append({**entries, **record["state"]["clusterQueues"], **record["state"]["cohorts"]})
    return told


@pytest.mark.parametrize("theme", ["preemption", "fair"])
def test_independent_cohorts_do_not_meet_whatever_comes_first(theme):
    compared = 0
    for one, other in itertools.pairwise(some(theme)):
        other = renamed(other)
        alone = [lived([case], one["config"]) for case in (one, other)]
        for order in ([one, other], [other, one]):
            for together, *apart in zip(lived(order, one["config"]), *alone, strict=False):
                assert together == {**apart[0], **apart[1]}, (one["name"], other["name"])
                compared += 1
    assert compared > 10


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"op": "foo"}, "a step's op is one of cycle, add, .*, not 'foo'"),
        ({}, "not None"),
        ({"op": "finish"}, "step finish: workload is missing"),
        ({"op": "advance", "seconds": "1"}, "step advance: seconds is missing, or not what it should be"),
        ({"op": "delete"}, "name an object, or a workload as namespace/name"),
    ],
)
def test_steps_that_cannot_be_carried_out_are_said(step, said):
    with pytest.raises(QueueStepError, match=said):
        decide_case({"steps": [step]})


def placed(topology):
    """An admitted workload with two pods on node x and one on y, as an API server has it."""
    given = [{"name": "main", "count": 3, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "3"}}]
    given[0]["topologyAssignment"] = topology
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return {
        "kind": "Workload",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"podSets": [{"name": "main", "count": 3, "template": {"spec": spec}}]},
        "status": {"admission": {"clusterQueue": "q", "podSetAssignments": given}},
    }


def test_places_of_admitted_workloads_are_read():
    columns = [{"individual": {"roots": ["x", "y"]}}]
    part = {"domainCount": 2, "valuesPerLevel": columns, "podCounts": {"individual": [2, 1]}}
    workload = KueueWorkload(placed({"levels": ["kubernetes.io/hostname"], "slices": [part]}))
    (given,) = workload.admission.pod_set_assignments
    assert given.topology_assignment.domains == ((("x",), 2), (("y",), 1))
    with pytest.raises(ObjectError, match="a topologyAssignment cannot be read"):
        KueueWorkload(placed({"slices": [part]}))


def test_the_cohorts_of_a_cycle_admit_nobody_and_end():
    cohorts = [
        {"kind": "Cohort", "metadata": {"name": name}, "spec": {"parentName": parent}}
        for name, parent in (("a", "b"), ("b", "c"), ("c", "a"))
    ]
    (case,) = some("quota")[:1]
    objects = [o for o in case["objects"] if o["kind"] not in ("Cohort", "ClusterQueue")]
    queues = [
        {**o, "spec": {**o["spec"], "cohortName": "a", "stopPolicy": "None"}}
        for o in case["objects"]
        if o["kind"] == "ClusterQueue"
    ]
    world = Queues([*objects, *cohorts, *queues], case["config"])
    result = world.cycle()
    assert not result.processed
    assert all(entry.message == f"ClusterQueue {entry.queue} is inactive" for entry in result.aside)
