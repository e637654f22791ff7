"""What one pod asks for, however expensive, costs no more than its budget of work, and other pods wait no longer."""

import contextlib

import pytest

from berth.api.codec import decode
from berth.cycle.instrument import Instrument
from berth.framework.status import unschedulable
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, document, node, plugin, pod

LIMIT = 100_000


def spending(steps, **methods):
    """A plugin that spends at Filter, for each node."""

    def spend(state, _pod, node):
        state.work.spend("Greedy", steps, lambda: f"which looks at {node.name}")

    return plugin("Greedy", filter=spend, **methods)


def greedy_and_plain(greedy, **options):
    """A pod that the plugin `Greedy` is asked about and, behind it, a plain pod of another profile."""
    config = document("Greedy")
    config["profiles"] = [{"schedulerName": "greedy", **config["profiles"][0]}, {"schedulerName": "default-scheduler"}]
    found = cluster(node("n1", "4"), node("n2", "4"), config=config, plugins={"Greedy": greedy}, **options)
    found.put(pod("a").scheduler("greedy").priority(10))
    found.put(pod("b"))
    return found


def test_an_attempt_that_uses_up_its_budget_ends_and_the_pod_is_told_why():
    found = greedy_and_plain(spending(60_000), work_limit=LIMIT)
    found.run()
    check(found.core)
    assert found.nodes_of()["a"] == ""
    told = found.patches("a")[-1]
    assert told.reason == "SchedulerError"
    assert told.message == "gave up after 100000 steps of work: 120004 of them by Greedy, which looks at n2"
    assert found.events("FailedScheduling") == [told.message]
    assert found.nodes_of()["b"] != ""
    assert "default/a" in found.core.queue.error_backoff


def test_a_pod_whose_attempts_use_up_their_budget_backs_off_longer_each_time():
    greedy = spending(60_000)
    found = greedy_and_plain(greedy, work_limit=LIMIT)
    found.run()
    attempts = []
    for _ in range(30):
        attempts.append(found.core.queue.find("default/a").attempts)
        found.advance(1.0)
    assert attempts[-1] <= 6  # after 1, 2, 4, 8 and 10 seconds


def test_a_plugin_that_catches_the_end_of_the_budget_does_not_get_more():
    def spend(state, _pod, _node):
        with contextlib.suppress(Exception):
            state.work.spend("Greedy", LIMIT)

    found = greedy_and_plain(plugin("Greedy", filter=spend), work_limit=LIMIT)
    found.run()
    assert found.nodes_of() == {"a": "", "b": found.nodes_of()["b"]}
    assert found.patches("a")[-1].message.startswith(f"gave up after {LIMIT} steps of work: ")


@pytest.mark.parametrize("point", ["pre_filter", "pre_score", "score", "post_filter"])
def test_the_budget_may_run_out_at_any_point(point):
    def spend(state, *_):
        state.work.spend("Greedy", LIMIT + 1)

    methods = {point: spend}
    if point == "pre_score":
        methods["score"] = lambda *_: 1
    if point == "post_filter":
        methods["filter"] = lambda *_: unschedulable("full")
    found = greedy_and_plain(plugin("Greedy", **methods), work_limit=LIMIT)
    found.run()
    check(found.core)
    assert found.patches("a")[-1].message.startswith(f"gave up after {LIMIT} steps of work: 10000")
    assert found.nodes_of()["b"] != ""


def test_no_bug_is_reported_where_a_budget_ends():
    bugs = []

    class Observer(Instrument):
        def broke(self, pod, bug):
            bugs.append(bug)

        def plugin_broke(self, name, method, bug):
            bugs.append(bug)

    found = greedy_and_plain(spending(60_000), work_limit=LIMIT, instrument=Observer())
    found.run()
    assert found.patches("a")[-1].message.startswith("gave up")
    assert not bugs


def test_backoff_counts_from_the_end_of_an_attempt():
    found = None

    def slow(*_):
        found.now += 40.0
        return unschedulable("full")

    def broken(*_):
        found.now += 40.0
        raise ValueError("broken")

    for does in (slow, broken):
        found = cluster(node(), config=document("Slow"), plugins={"Slow": plugin("Slow", filter=does)})
        found.put(pod("a"))
        found.step()
        queued = found.core.queue.find("default/a")
        assert queued.timestamp == 40.0
    assert queued.backoff_until >= 41.0


def devices_on(*names):
    """Devices, 24 on each of these nodes, and their class."""
    for name in names:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": f"d{i}"} for i in range(24)]}
        yield decode("ResourceSlice", {"metadata": {"name": name}, "spec": spec})
    yield decode("DeviceClass", {"metadata": {"name": "gpu"}})


def hostile_claim(**fields):
    """A claim with ten requests that any device will do for, and one that none will, or other constraints."""
    exactly = {"deviceClassName": "gpu", "count": 1}
    requests = [{"name": f"r{i}", "exactly": exactly} for i in range(10)]
    never = {**exactly, "selectors": [{"cel": {"expression": "device.driver == 'other'"}}]}
    devices = (
        {"requests": requests, **fields} if fields else {"requests": [*requests, {"name": "never", "exactly": never}]}
    )
    meta = {"name": "c", "namespace": "default", "uid": "c"}
    return decode("ResourceClaim", {"metadata": meta, "spec": {"devices": devices}})


def with_claim(name):
    """A pod of high priority that uses the claim."""
    found = pod(name).priority(10)
    found.spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    return found


def test_a_plain_pod_behind_a_hostile_claim_is_bound_at_once():
    nodes = [node(f"n{i}", "4") for i in range(4)]
    found = cluster(*nodes, *devices_on("n0", "n1", "n2", "n3"), hostile_claim(), work_limit=LIMIT)
    found.put(with_claim("a"))
    found.put(pod("b"))
    found.run()
    assert found.nodes_of()["b"] != ""
    assert "4 cannot allocate all claims" in found.patches("a")[-1].message  # not given up: found out in time


def test_a_claim_that_cannot_be_cut_short_costs_each_node_once():
    # That devices have no such attribute is found out only device by device.
    constraints = [{"requests": ["r9"], "distinctAttribute": "d/none"}]
    names = [f"n{i}" for i in range(6)]
    found = cluster(
        *(node(name, "4") for name in names), *devices_on(*names), hostile_claim(constraints=constraints),
        work_limit=LIMIT,
    )  # fmt: skip
    found.put(with_claim("a"))
    found.put(pod("b"))
    found.step()
    assert found.patches("a")[-1].message.startswith(f"gave up after {LIMIT} steps of work: ")
    found.step()
    assert found.nodes_of()["b"] != ""
    found.advance(30.0)
    assert "gave up looking for devices" in found.patches("a")[-1].message  # and not the attempt as a whole
    check(found.core)


def test_a_plain_pod_behind_one_with_thousands_of_spread_constraints_is_bound_at_once():
    many = pod("a").priority(10)
    many.spec["topologySpreadConstraints"] = [
        {"maxSkew": 1, "topologyKey": f"key-{i}", "whenUnsatisfiable": "DoNotSchedule"} for i in range(2000)
    ]
    found = cluster(*(node(f"n{i}", "4") for i in range(10)))
    found.put(many)
    found.put(pod("b"))
    found.run()
    assert found.nodes_of()["b"] != ""
    assert "missing required label" in found.patches("a")[-1].message
