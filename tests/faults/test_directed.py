"""Histories made by hand, for what chance brings about too rarely."""

import pytest

from tests.faults.history import History, live
from tests.faults.plan import Plan, Thing
from tests.faults.wire import Trouble

SMALL = ("1", 8, "a")


def plan(seed, *things, **more):
    options = {
        "candidates": 0,
        "has_plugin": False,
        "has_extender": False,
        "extender_binds": False,
        "has_groups": False,
    }
    return Plan(seed=seed, unschedulable_age_s=None, things=things, **{**options, **more})


@pytest.mark.parametrize("seed", range(5))
def test_an_eviction_spares_the_pod_that_has_taken_the_name_of_its_victim(seed):
    lived = live(
        plan(
            seed,
            Thing(0.0, "add_node", ("node-0", SMALL)),
            Thing(0.0, "add_pod", ("victim", {"cpu": "700m", "priority": "low"})),
            Thing(2.0, "trouble", (0, Trouble("slow", ("delete",), (), 30.0))),
            Thing(2.0, "add_pod", ("preemptor", {"cpu": "700m", "priority": "high"})),
            Thing(2.1, "remove_pod", ("victim",)),
            Thing(2.101, "add_pod", ("victim", {"cpu": "100m", "priority": "low"})),
        )
    )
    assert {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in lived.server.pods()} == {
        "victim": "node-0",
        "preemptor": "node-0",
    }


def test_cycles_pause_while_many_bindings_are_unanswered(monkeypatch):
    monkeypatch.setattr("berth.runtime.core_work.MAX_PENDING_BINDINGS", 3)
    lived = History(
        plan(
            1,
            Thing(0.0, "add_node", ("node-0", ("4", 110, "a"))),
            Thing(2.0, "trouble", (0, Trouble("slow", ("bind",), (), 30.0, detail=2.0))),
            *(Thing(3.0, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(20)),
        )
    )
    wires = []
    lived.sim.at(20.0, lambda: wires.append(lived.processes[0].wire))
    lived.live()
    assert len(lived.server.bound_by) == 20
    assert wires[0].most_under_way["bind"] == 3


def test_nothing_is_written_before_everything_is_known():
    lived = live(
        plan(
            1,
            Thing(0.0, "add_node", ("node-0", ("4", 110, "a"))),
            Thing(0.0, "trouble", (0, Trouble("slow", ("list", "watch", "lines"), (), 20.0))),
            *(Thing(0.0, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(5)),
        )
    )
    assert len(lived.server.bound_by) == 5


def test_what_the_server_refuses_is_asked_for_again_at_once_and_not_taken_for_unserved():
    lived = live(
        plan(
            1,
            Thing(0.0, "add_node", ("node-0", ("4", 110, "a"))),
            Thing(0.0, "add_claim", ("c0",)),
            Thing(0.0, "trouble", (0, Trouble("error", ("list", "watch"), ("persistentvolumeclaims",), 5.0, 1.0, 403))),
            Thing(0.0, "add_pod", ("p0", {"cpu": "100m", "claim": "c0"})),
        )
    )
    assert len(lived.server.bound_by) == 1
    assert lived.sim.now < 120.0, "a kind that is not served would be asked for after five minutes"


@pytest.mark.parametrize("seed", range(5))
def test_the_lease_is_kept_until_the_last_binding_has_ended(seed):
    lived = live(
        plan(
            seed,
            *(Thing(0.0, "add_node", (f"node-{index}", ("4", 110, "a"))) for index in range(2)),
            Thing(1.0, "trouble", (0, Trouble("slow", ("bind",), (), 30.0, detail=2.0))),
            *(Thing(3.0, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(10)),
            Thing(3.1, "stop", (0,)),
            candidates=1,
        )
    )
    given_up = [now for now, _, text, _ in lived.sim.story if text.startswith("the lease is given up")]
    bound = [now for now, _, text, _ in lived.sim.story if text.startswith("pod %s (%s) is bound")]
    assert len(bound) == 10 and set(lived.server.bound_by.values()) <= {
        ("node-0", "scheduler-0#1"),
        ("node-1", "scheduler-0#1"),
    }
    assert max(bound) < given_up[0], "the next to lead must not decide while bindings are under way"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("trouble", [None, Trouble("error", ("bind",), (), 60.0, 0.3, 503)])
def test_a_stop_in_a_burst_leaves_what_is_not_sent_to_the_standby_at_once(seed, trouble):
    """What waits for the rate limit would take half a minute; the lease is given up in as long as answers take."""
    pods, stop_s = 60, 4.0
    lived = History(
        plan(
            seed,
            *(Thing(0.0, "add_node", (f"node-{index}", ("4", 110, "a"))) for index in range(2)),
            *(Thing(2.0, "trouble", (index, trouble)) for index in (0, 1) if trouble is not None),
            *(Thing(3.0, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(pods)),
            candidates=2,
            qps=2.0,
        )
    )
    lived.sim.at(stop_s, lambda: lived.leader.tell_to_stop())
    lived.live()
    given_up = [now for now, _, text, _ in lived.sim.story if text.startswith("the lease is given up")]
    bound = [now for now, _, text, _ in lived.sim.story if text.startswith("pod %s (%s) is bound")]
    assert len(bound) == pods and min(bound) < stop_s < max(bound)
    assert stop_s < given_up[0] < stop_s + 1.0
    assert min(now for now in bound if now > given_up[0]) < given_up[0] + 2.0, "the standby takes over at once"
    told = {event["involvedObject"]["name"] for event in lived.server.events("Scheduled")}
    assert len(told) == pods, "each binding that was made is told"
    assert not lived.server.events("FailedScheduling")


@pytest.mark.parametrize("lag_s", [0.06, 0.4, 10.0])
def test_a_preemptor_costs_one_victim_however_late_the_watch_is(lag_s):
    """While a late watch still shows the victim as running, growing nodes wake the preemptor again and again."""
    nodes, start_s, gap_s = [f"node-{index}" for index in range(4)], 3.0 + lag_s, 3.0 + 2 * lag_s
    end_s = start_s + 3 * gap_s
    wake_every_s = 0.07 + lag_s / 30
    lived = live(
        plan(
            1,
            *(Thing(0.0, "add_node", (name, SMALL)) for name in nodes),
            *(Thing(1.0, "add_pod", (f"low-{name}", {"cpu": "700m", "priority": "low"})) for name in nodes),
            *(Thing(2.0, "add_pod", (f"third-{i}", {"cpu": "700m", "priority": "low"})) for i in range(2)),
            *(
                Thing(start_s + i * gap_s, "add_pod", (f"high-{i}", {"cpu": "700m", "priority": "high"}))
                for i in range(3)
            ),
            *(
                Thing(start_s + i * wake_every_s, "grow", (nodes[i % len(nodes)],))
                for i in range(int((end_s - start_s) / wake_every_s))
            ),
            lag_s=lag_s,
        )
    )
    running = [pod["metadata"]["name"] for pod in lived.server.pods() if pod["spec"].get("nodeName")]
    assert len(lived.server.evicted) == 3
    assert sorted(name for name in running if not name.startswith("low")) == ["high-0", "high-1", "high-2"]


@pytest.mark.parametrize(("binds_slowly", "within_s"), [(True, 15.0), (False, 95.0)])
def test_watches_that_all_fall_silent_are_opened_again(binds_slowly, within_s):
    """Soon, where the watch must show bindings of ours; else as soon as a bookmark is overdue."""
    bindings = [Thing(0.9, "trouble", (0, Trouble("slow", ("bind",), (), 5.0, detail=3.0)))] if binds_slowly else []
    lived = History(
        plan(
            1,
            *(Thing(0.0, "add_node", (f"node-{index}", ("4", 110, "a"))) for index in range(3)),
            *(Thing(1.0, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(20)),
            *bindings,
            Thing(2.0, "trouble", (0, Trouble("lines silent", ("lines",), (), 4.0))),
            *(Thing(3.5, "add_pod", (f"p{index}", {"cpu": "100m"})) for index in range(20, 40)),
        )
    ).live()
    bound = [now for now, _, text, _ in lived.sim.story if text.startswith("pod %s (%s) is bound")]
    assert len(bound) == 40
    assert max(bound) < 3.5 + within_s
