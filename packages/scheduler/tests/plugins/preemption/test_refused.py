"""Which rows are tried again: those that may be freed now, and no others. Whole answers: tests/cycle/test_crowds.py."""

import numpy as np
import pytest

from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.status import error, unschedulable
from berth.plugins.preemption.refused import MAX_STATUSES, LowestPriorities, RefusedRows
from berth.state.nominator import Nominator
from berth.state.table import WritableNodeTable
from berth.testing.invariants import decide
from packages.scheduler.tests.plugins.preemption.support import nodes, running

FULL, HELD = unschedulable("full"), unschedulable("held")
BASIS = ("plan", 1)


class Rows:
    """A table of four nodes, what is known of its rows, and which rows were tried."""

    def __init__(self):
        self.table, self.nominator, self.tried = WritableNodeTable(), Nominator(), []
        for name in "abcd":
            self.table.put_node(make_node(name).capacity(cpu="4", pods="10").build())
        self.rows = self.table.rows()
        self.refused = RefusedRows(self.table, self.nominator)
        assert self.refused.learn(BASIS, self.rows, [(FULL, self.rows[:3]), (HELD, self.rows[3:])], 7)

    def row(self, name):
        return self.table.row_of[name]

    def still_hold(self, rows=None, basis=BASIS, said=FULL):
        self.tried.clear()

        def try_out(left):
            self.tried.extend(sorted(self.table.names[row] for row in left.tolist()))
            return None if said is None else [(said, left)]

        return self.refused.still_hold(basis, self.rows if rows is None else rows, try_out)

    def counts(self):
        return self.refused.answer(lambda refusals: {status.message: len(rows) for status, rows in refusals})


def test_nothing_is_tried_again_where_nothing_has_changed():
    found = Rows()
    assert found.still_hold()
    assert found.tried == []
    assert found.counts() == {"full": 3, "held": 1}
    assert found.refused.steps == 7


CHANGES = {
    "a pod comes": lambda found: found.table.add_pod(found.row("b"), make_pod("p").request(cpu="1").info()),
    "the node changes": lambda found: found.table.put_node(make_node("b").capacity(cpu="8", pods="10").build()),
    "a pod is nominated": lambda found: found.nominator.nominate(make_pod("p").info(), "b"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("known", [True, False])
def test_a_row_is_tried_again_where_it_may_have_changed(change, known):
    found = Rows()
    if known:
        found.counts()
    CHANGES[change](found)
    assert found.still_hold(said=HELD)
    assert found.tried == ["b"]
    assert found.counts() == {"full": 2, "held": 2}
    assert found.still_hold()
    assert found.tried == []


def test_a_nomination_that_is_given_up_counts_too():
    found = Rows()
    pod = make_pod("p").info()
    found.nominator.nominate(pod, "c")
    assert found.still_hold()
    found.nominator.withdraw(pod.uid)
    assert found.still_hold()
    assert found.tried == ["c"]


def test_nothing_is_known_on_another_basis():
    found = Rows()
    assert not found.still_hold(basis=("plan", 2))
    assert not found.still_hold(), "what was known before is gone"


def test_nothing_is_known_once_a_row_can_be_freed():
    found = Rows()
    CHANGES["a pod comes"](found)
    assert not found.still_hold(said=None)
    assert not found.still_hold()


def test_errors_are_not_kept():
    found = Rows()
    assert not found.refused.learn(BASIS, found.rows, [(error("broken"), found.rows)], 1)
    assert not found.still_hold()


def test_a_bug_leaves_what_it_was_about_to_be_tried_again():
    found = Rows()
    found.counts()
    CHANGES["a pod comes"](found)

    def broken(left):
        raise RuntimeError("a plugin's bug")

    with pytest.raises(RuntimeError):
        found.refused.still_hold(BASIS, found.rows, broken)
    assert found.still_hold()
    assert found.tried == ["b"]


def test_rows_that_were_not_looked_at_are_tried():
    found = Rows()
    fewer = found.rows[found.rows != found.row("a")]
    assert found.still_hold(fewer)
    assert found.tried == []
    assert sum(found.counts().values()) == 3
    assert found.still_hold(found.rows.copy())
    assert found.tried == ["a"]


def test_an_answer_is_made_anew_where_there_are_more_nodes_or_other_refusals():
    found, made = Rows(), []

    def make(refusals):
        made.append({status.message: len(rows) for status, rows in refusals})
        return len(made)

    assert [found.refused.answer(make), found.refused.answer(make)] == [1, 1]
    found.table.put_node(make_node("e").capacity(cpu="4", pods="10").build())
    assert found.still_hold()
    assert found.refused.answer(make) == 2, "it counts the nodes that were not tried as well"
    CHANGES["a pod comes"](found)
    assert found.still_hold(said=HELD)
    assert found.refused.answer(make) == 3


def test_there_is_a_bound_on_reasons():
    found = Rows()
    for number in range(MAX_STATUSES):
        found.table.add_pod(found.row("b"), make_pod(f"p{number}").info())
        if not found.still_hold(said=unschedulable(f"reason {number}")):
            break
    else:
        raise AssertionError("reasons pile up")


def test_the_lowest_priority_follows_the_pods():
    found = Rows()
    lowest = LowestPriorities(found.table)
    assert not lowest.are_below(1000, found.rows).any(), "nobody runs there"
    pods = [make_pod(f"p{priority}").priority(priority).info() for priority in (5, -3, 0)]
    for pod in pods:
        found.table.add_pod(found.row("c"), pod)

    def where(priority):
        return [found.table.names[row] for row in found.rows[lowest.are_below(priority, found.rows)].tolist()]

    assert (where(-3), where(-2), where(6)) == ([], ["c"], ["c"])
    found.table.remove_pod(found.row("c"), pods[1])
    assert (where(0), where(1)) == ([], ["c"])
    assert lowest.are_below(1, np.zeros(0, dtype=np.intp)).tolist() == []


def test_a_nominated_pod_need_not_make_way_for_itself_as_others_of_its_shape_must():
    cluster = VirtualCluster(*nodes("n1"), running("low", "n1", cpu="4"))
    first, *others = [
        cluster.core.intake.info(make_pod(name).priority(10).request(cpu="4").build()) for name in ("a", "b", "c", "d")
    ]
    cluster.core.nominator.nominate(first, "n1")
    for pod in (*others, *others):  # often enough for what is refused to be kept
        assert not decide(cluster.core, pod, memos=True).outcome.victims
    assert [victim.name for victim in decide(cluster.core, first, memos=True).outcome.victims] == ["low"]
