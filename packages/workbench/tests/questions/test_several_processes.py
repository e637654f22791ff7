"""Answers are the same, however many processes work at them."""

import random

import msgspec
import pytest

from berth_workbench.planning.survival import survival
from berth_workbench.simulation.watch import WorkWatch
from packages.workbench.tests.planning.mixed_worlds import MixedWorld
from packages.workbench.tests.questions.every import ASKED, QUESTIONS
from tests.effort import examples

PARALLEL = [name for name, question in QUESTIONS.items() if question.is_parallel]


def answered(name, jobs):
    question, (situation, request) = QUESTIONS[name], ASKED[name]()
    return msgspec.to_builtins(question.document(question.answer(situation, request, WorkWatch(jobs=jobs))))


@pytest.mark.parametrize("name", PARALLEL)
def test_two_processes_answer_as_one(name):
    assert answered(name, 2) == answered(name, 1)


@pytest.mark.parametrize("seed", range(examples(4)))
def test_what_is_survived_is_the_same_in_two_processes(seed):
    at_most = random.Random(seed).choice([2, 200])
    one, two = (
        survival(MixedWorld(seed).at_rest(), pairs=True, simulated_at_most=at_most, watch=WorkWatch(jobs=jobs))
        for jobs in (1, 2)
    )
    assert one == two
