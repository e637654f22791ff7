"""`berth bench` in process: figures that add up, checks that leave no trace, and that find what they are for."""

import msgspec
import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.promises import Dependency
from berth.plugins.preemption import search
from berth.plugins.preemption.choice import Candidate
from berth.plugins.registry import in_tree_registry
from berth_workbench.bench import CheckError, run
from packages.scheduler.tests.support import document, plugin


def workload(nodes=4, pods=30):
    objects = [make_node(f"n{index}").capacity(cpu="2", memory="8Gi") for index in range(nodes)]
    objects += [make_pod("running").request(cpu="1").node("n0")]
    objects += [make_pod(f"p{index}").request(cpu="250m") for index in range(pods)]
    return [msgspec.json.encode(obj.document) for obj in objects]


def test_figures_add_up():
    figures = run(workload(), in_tree_registry())
    assert (figures.nodes, figures.pods, figures.failed, figures.nodes_used) == (4, 30, 2, 4)
    assert figures.seconds > 0
    assert figures.pods_per_s == pytest.approx(30 / figures.seconds, rel=0.05)
    assert figures.ms_per_pod == pytest.approx(1000 * figures.seconds / 30, rel=0.05)


@pytest.mark.parametrize("memos", [True, False])
def test_checks_agree_and_change_nothing(memos):
    checked, unchecked = (run(workload(), in_tree_registry(), check=check, memos=memos) for check in (1000, 0))
    assert (checked.checked, unchecked.checked) == (30, 0)
    assert (checked.failed, checked.nodes_used) == (unchecked.failed, unchecked.nodes_used)


def crowded(nodes=12, pods=10):
    """Every node is full of pods of low priority, three of four of which must go for each that comes."""
    objects = [make_node(f"n{index}").capacity(cpu="4", memory="8Gi") for index in range(nodes)]
    objects += [make_pod(f"low{index}").request(cpu="900m").node(f"n{index // 4}") for index in range(4 * nodes)]
    objects += [make_pod(f"p{index}").request(cpu="3").priority(10) for index in range(pods)]
    return [msgspec.json.encode(obj.document) for obj in objects]


@pytest.mark.parametrize("memos", [True, False])
def test_those_who_must_go_leave_at_once(memos):
    checked, unchecked = (run(crowded(), in_tree_registry(), check=check, memos=memos) for check in (10, 0))
    assert (checked.pods, checked.failed, checked.nodes_used, checked.checked) == (10, 0, 10, 10)
    assert (unchecked.failed, unchecked.nodes_used) == (0, 10)


def test_who_cannot_make_room_fails():
    assert run(crowded(nodes=3, pods=5), in_tree_registry(), check=5).failed == 2


def test_a_wrong_dry_run_is_found(monkeypatch):
    """The columns name too many victims and nobody confirms them: what `--check` is for."""
    monkeypatch.setattr(search, "_confirmed", _everybody)
    with pytest.raises(CheckError, match="must leave"):
        run(crowded(), in_tree_registry(), check=10)


def _everybody(parts, plain, table):
    row = int(parts[0].rows[0])
    return Candidate(row, tuple(table.pods[row].values()), 0)


def test_nothing_pending_is_no_error():
    assert run(workload(pods=0), in_tree_registry()).pods == 0


def test_a_plugin_that_forgets_a_dependency_is_found():
    """Its score depends on the pods of a node, it says that it does not."""
    liar = plugin(
        "Liar",
        score_depends_on=frozenset({Dependency.NODE}),
        signature=lambda pod: "all",
        score=lambda state, pod, node: len(node.pods),
        score_columns=lambda state, pod, table, rows: table.pod_count[rows].copy(),
    )
    from berth.config.load import load_config
    from berth.framework.registry import Registry

    registry = in_tree_registry().merge(Registry({"Liar": liar}, "a test"))
    with pytest.raises(CheckError, match="default/p"):
        run(workload(), registry, config=load_config(document("Liar")), check=30)
