"""Copies, checkpoints and bursts of `berth.Scheduler` leave no trace in what comes after them."""

import random

import numpy as np
import pytest

import berth
from berth.framework.status import Code, Status
from packages.scheduler.tests.support import plugin
from tests.test_library import node, pod

SEEDS = range(6)


def random_pod(lots, name):
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": lots.choice(("DoNotSchedule", "ScheduleAnyway")),
    }
    app = {"app": lots.choice("abc")}
    spec = (
        {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": app}}]}
        if lots.random() < 0.3
        else {}
    )
    made = pod(name, cpu=lots.choice(("100m", "500m", "2")), priority=lots.choice((0, 0, 5)), **spec)
    made["metadata"]["labels"] = app
    return made


def random_node(lots, name):
    return node(name, cpu=lots.choice(("2", "4")), labels={"zone": lots.choice("xyz")})


def live(scheduler, lots, tag, steps):
    """Do something random; return all that is told of it."""
    told = []
    for step in range(steps):
        what, names = lots.random(), sorted(scheduler.placements)
        if what < 0.1:
            scheduler.add(random_node(lots, f"n{tag}{step}"))
        elif what < 0.15 and scheduler.nodes()["node"]:
            gone = lots.choice(scheduler.nodes()["node"])
            scheduler.remove("Node", gone)
        elif what < 0.3 and names:
            scheduler.remove("Pod", lots.choice(names).partition("/")[2])
        elif what < 0.5:
            scheduler.add(*[random_pod(lots, f"p{tag}{step}-{number}") for number in range(lots.randrange(4))])
            told += [each.as_dict() for each in scheduler.schedule_all()]
        elif what < 0.55 and scheduler.nodes()["node"]:
            scheduler.bind(random_pod(lots, f"b{tag}{step}"), lots.choice(scheduler.nodes()["node"]))
        else:
            told.append(scheduler.schedule(random_pod(lots, f"p{tag}{step}")).as_dict())
    told.append((scheduler.pods().rows, scheduler.nodes().rows, scheduler.measures(), scheduler.node_names))
    return told


def begun(seed):
    scheduler, lots = berth.Scheduler(seed=seed), random.Random(seed)
    scheduler.add(*[random_node(lots, f"n{number}") for number in range(5)])
    live(scheduler, lots, "a", 15)
    return scheduler


def went_on(scheduler, seed):
    return live(scheduler, random.Random(100 + seed), "z", 15)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_rolled_back_never_was(seed):
    scheduler = begun(seed)
    for trial in range(3):
        scheduler.checkpoint()
        live(scheduler, random.Random(trial), "t", 8)
        scheduler.checkpoint()
        live(scheduler, random.Random(10 + trial), "u", 6)
        scheduler.keep() if trial == 1 else scheduler.rollback()
        scheduler.rollback()
    assert went_on(scheduler, seed) == went_on(begun(seed), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_goes_on_as_the_original_does_and_neither_hears_of_the_other(seed):
    scheduler = begun(seed)
    copied = scheduler.copy()
    of_copy = went_on(copied, seed)
    second = scheduler.copy()
    assert went_on(scheduler, seed) == of_copy == went_on(begun(seed), seed)
    assert went_on(second, seed) == of_copy


def test_a_pod_that_is_evicted_in_the_call_in_which_it_was_placed_is_told_of():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1", cpu="1"), pod("low", cpu="1", nodeName="n1"))
    scheduler.add(pod("middle", cpu="1", priority=5), pod("high", cpu="1", priority=9))
    assert {each.pod: each.node for each in scheduler.schedule_all()} == {"default/middle": None, "default/high": "n1"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_burst_without_explanations_decides_as_one_with_them(seed):
    told = []
    for explain in (True, False):
        scheduler, lots = begun(seed), random.Random(seed)
        for batch in range(4):
            made = random_pod(lots, "?")
            for number in range(12):
                scheduler.add({**made, "metadata": {**made["metadata"], "name": f"x{batch}-{number}"}})
            told.append(
                [
                    (each.pod, each.outcome, each.node, each.message, each.victims)
                    for each in scheduler.schedule_all(explain=explain)
                ]
            )
        told.append(went_on(scheduler, seed))
    assert told[:5] == told[5:]


def test_what_is_not_explained_says_so():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1", cpu="1"), pod("fits"), pod("waits"))
    fits, waits = scheduler.schedule_all(explain=False)
    assert fits.summary == "default/fits goes to n1"
    assert "scores" not in fits.as_dict()
    with pytest.raises(ValueError, match="default/fits was placed without an explanation"):
        fits.scores  # noqa: B018
    assert [said.plugin for said in waits.reasons["n1"]] == ["NodeResourcesFit"]
    assert "default/fits goes to n1" in fits._repr_html_() and "Insufficient cpu" in waits._repr_html_()


def test_a_checkpoint_looks_at_nothing_that_grows_with_the_cluster():
    scheduler = berth.Scheduler()
    scheduler.add(*[node(f"n{number}") for number in range(50)], pod("p"))
    scheduler.checkpoint()
    scheduler.rollback()
    core = scheduler._cluster.core
    before = core.cache.table.note_order()
    core.cache.table.keep_order()
    scheduler.checkpoint()
    scheduler.schedule(pod("q"))
    scheduler.rollback()
    after = core.cache.table.note_order()
    core.cache.table.keep_order()
    assert after is before


def test_a_pod_is_bound_where_nobody_would_have_placed_it():
    scheduler = berth.Scheduler()
    scheduler.add(node("small", cpu="1"), node("large"), pod("waits", cpu="8"))
    scheduler.bind("default/waits", "small")
    scheduler.bind(pod("new"), "small")
    assert scheduler.placements == {"default/waits": "small", "default/new": "small"}
    assert scheduler.schedule(pod("next")).node == "large"
    with pytest.raises(ValueError, match="pod default/new runs on small already"):
        scheduler.bind("default/new", "large")
    with pytest.raises(KeyError, match="there is no node 'lrage'"):
        scheduler.bind(pod("x"), "lrage")
    with pytest.raises(KeyError, match="there is no pod 'default/x'"):
        scheduler.bind("default/x", "large")
    with pytest.raises(ValueError, match="call checkpoint"):
        scheduler.rollback()


def test_no_checkpoint_while_a_pod_waits_for_permit():
    patient = plugin("Patient", permit=lambda *_: (Status(Code.WAIT, ("not yet",)), 30.0))
    scheduler = berth.Scheduler(plugins=[patient])
    scheduler.add(node("n1"))
    scheduler.schedule(pod("web"))
    for refuse in (scheduler.checkpoint, scheduler.copy):
        with pytest.raises(ValueError, match="while default/web waits for Permit"):
            refuse()


def test_arrays_say_row_by_row_what_the_filters_and_the_columns_say():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1", cpu="2"), node("n2", cpu="4"), pod("there", cpu="3", nodeName="n2"))
    names = scheduler.node_names
    capacity, requested = scheduler.capacity(), scheduler.requested("cpu")
    assert {name: (int(capacity[row]), int(requested[row])) for row, name in enumerate(names) if name} == {
        "n1": (2000, 0),
        "n2": (4000, 3000),
    }
    assert [names[row] for row in np.flatnonzero(scheduler.feasible(pod("web", cpu="2")))] == ["n1"]
    assert not scheduler.feasible(pod("web", cpu="5")).any()
    assert "default/web" not in scheduler.placements
    scheduler.schedule(pod("web", cpu="2"))
    assert requested[names.index("n1")] == 2000  # a view
    with pytest.raises(ValueError, match="read-only"):
        capacity[0] = 1
    with pytest.raises(KeyError, match="names the resource 'gpu'; known are cpu"):
        scheduler.capacity("gpu")


def test_tables_are_read_by_others():
    scheduler = berth.Scheduler()
    scheduler.add(node("n1<b>", cpu="2"), pod("web", nodeName="n1<b>"), pod("db"))
    assert scheduler.pods()["node"] == ["n1<b>", None]
    assert scheduler.pods()["cpu"] == [1000, 1000]
    assert (scheduler.nodes()["cpu"], scheduler.nodes()["cpu requested"]) == ([2000], [1000])
    measures = scheduler.measures()
    assert (measures["nodes_used"], measures["pending"], measures["utilisation cpu"]) == (1, 1, 0.5)
    assert scheduler.pods().arrow().column("pod").to_pylist() == ["web", "db"]
    assert repr(scheduler) == "<berth.Scheduler: 1 nodes, 2 pods, 1 of them pending>"
    assert "n1&lt;b&gt;" in scheduler._repr_html_() and "<b>" not in scheduler._repr_html_()
    with pytest.raises(KeyError, match="there is no column 'nod'"):
        scheduler.pods()["nod"]
