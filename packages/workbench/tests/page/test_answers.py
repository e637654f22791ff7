"""Questions of the page: one under way for a person, answers that are kept, and what nobody looks at any more."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from berth_workbench.page.answers import Answers
from berth_workbench.page.jobs import Jobs

DONE = SimpleNamespace(is_complete=True)


def until_stopped(watch):
    while not watch.is_stopped:
        watch.advance()
    return SimpleNamespace(is_complete=False)


def preparing(work):
    async def prepare():
        return work

    return prepare


@pytest.fixture
def answers():
    return Answers(Jobs())


async def ended(asked):
    while not asked.is_done:
        await asyncio.sleep(0)
    return asked


async def test_an_answer_is_kept_and_one_that_was_stopped_is_not(answers):
    asked = await ended(answers.ask("survive", "ada", preparing(lambda _: DONE)))
    assert asked.answer is DONE and answers.kept("survive") is asked and answers.kept("wait") is None
    begun = answers.ask("wait", "ada", preparing(until_stopped))
    assert answers.kept("wait") is begun, "who comes now joins those who wait"
    begun.watch.stop()
    await ended(begun)
    assert answers.kept("wait") is None


async def test_a_persons_new_question_ends_the_old_and_nobody_elses(answers):
    first = answers.ask("upgrade", "ada", preparing(until_stopped))
    while not first.watch.done:
        await asyncio.sleep(0)
    other = await ended(answers.ask("upgrade of bob", "bob", preparing(lambda _: DONE)))
    assert other.problem.startswith("a question of somebody else is being answered") and not first.is_done
    second = await ended(answers.ask("survive", "ada", preparing(lambda _: DONE)))
    assert first.is_done and second.answer is DONE


async def test_what_was_asked_and_left_before_its_turn_is_not_begun(answers):
    may_end = threading.Event()
    first = answers.ask("a", "ada", preparing(lambda _: may_end.wait(10) and DONE))
    second = answers.ask("b", "ada", preparing(lambda _: DONE))
    third = answers.ask("c", "ada", preparing(lambda _: DONE))
    may_end.set()
    await asyncio.gather(ended(first), ended(second), ended(third))
    assert second.problem.startswith("This was stopped") and third.answer is DONE


async def test_what_goes_wrong_is_told_and_not_kept(answers):
    async def prepare():
        raise ValueError("drain n9: no node 'n9'")

    assert (await ended(answers.ask("a", "ada", prepare))).problem == "drain n9: no node 'n9'"
    broken = await ended(answers.ask("b", "ada", preparing(lambda _: 1 / 0)))
    assert "a mistake in Berth (ZeroDivisionError" in broken.problem
    assert answers.kept("a") is None and answers.kept("b") is None
