"""The budget of work of one attempt."""

import pytest

from berth.framework.cycle_state import CycleState
from berth.framework.work_budget import OutOfBudgetError, WorkBudget


def test_what_is_spent_is_counted_by_plugin():
    budget = WorkBudget(100)
    budget.spend("A", 10)
    budget.spend("B", 20)
    budget.spend("A", 5)
    assert (budget.spent, dict(budget.by_plugin), budget.verdict) == (35, {"A": 15, "B": 20}, "")


def test_the_last_step_may_be_taken_and_no_more():
    budget = WorkBudget(10)
    budget.spend("A", 10)
    with pytest.raises(OutOfBudgetError):
        budget.spend("A", 1)


def test_the_plugin_that_used_most_is_named_with_what_it_does():
    budget = WorkBudget(100)
    budget.spend("A", 10)
    with pytest.raises(OutOfBudgetError) as ended:
        budget.spend("B", 200, lambda: "which counts sheep")
    assert str(ended.value) == "gave up after 100 steps of work: 200 of them by B, which counts sheep"


def test_a_plugin_is_not_blamed_for_what_another_used():
    budget = WorkBudget(100)
    budget.spend("A", 99)
    with pytest.raises(OutOfBudgetError) as ended:
        budget.spend("B", 2, lambda: "which counts sheep")
    assert str(ended.value) == "gave up after 100 steps of work: 99 of them by A"


def test_a_budget_that_is_used_up_stays_so_and_tells_the_same():
    budget = WorkBudget(1)
    for _ in range(2):
        with pytest.raises(OutOfBudgetError, match="by A"):
            budget.spend("A", 2)
    with pytest.raises(OutOfBudgetError, match="by A"):
        budget.spend("B", 50)
    assert budget.verdict == "gave up after 1 steps of work: 2 of them by A"


def test_what_ifs_spend_the_budget_of_the_attempt():
    state = CycleState(WorkBudget(5))
    state.clone().work.spend("A", 5)
    with pytest.raises(OutOfBudgetError):
        state.work.spend("A", 1)
