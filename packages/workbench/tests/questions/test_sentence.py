"""A question in words: what is typed stands in the sentence, and what is unusual behind it."""

import re

import pytest

from berth_workbench.questions.sentence import asked_in_words, changes_in_words
from berth_workbench.questions.survive import QUESTION as SURVIVE
from berth_workbench.questions.survive import SurviveRequest
from berth_workbench.questions.table import asked_on_page
from berth_workbench.questions.whatif import QUESTION as WHATIF
from berth_workbench.questions.whatif import WhatIfRequest
from berth_workbench.simulation.changes import CHANGES, parse_flag
from packages.workbench.tests.questions.every import ASKED, QUESTIONS

TYPED = {
    "drain": "n1", "cordon": "n1", "uncordon": "n1", "removeNodes": "n1", "addNodes": "2=n1", "loseZone": "a",
    "scale": "deployment/web=3", "delete": "deployment/web", "evict": "shop/web-0,shop/web-1", "upgrade": "n1",
    "taint": "n1:k=v:NoSchedule", "untaint": "n1:k", "label": "n1:k=v",
}  # fmt: skip


def test_what_was_asked_is_a_sentence():
    assert asked_in_words(SURVIVE, SurviveRequest()) == (
        "Lose each zone, node and pool in turn, one at a time, after no changes."
    )
    asked = SurviveRequest(kinds=("zone", "node"), pairs=True, at_most=50, pool_label="team")
    assert asked_in_words(SURVIVE, asked, [parse_flag("drain", "n1"), parse_flag("loseZone", "a")]) == (
        "Lose each zone and node in turn, one or two at a time, after draining n1 and losing zone a. "
        "Simulate at most 50 failures. A pool is what the node label team names."
    )


def test_changes_are_supposed_or_done():
    steps = [parse_flag("addNodes", "2=n1"), parse_flag("scale", "deployment/web=3")]
    told = "What if 2 nodes like n1 were added and deployment/web were scaled to 3?"
    assert asked_in_words(WHATIF, WhatIfRequest(), steps) == told
    assert changes_in_words(steps) == "adding 2 nodes like n1 and scaling deployment/web to 3"
    assert changes_in_words(steps * 2).endswith("and 2 more changes")


@pytest.mark.parametrize("step", CHANGES)
def test_every_change_has_words(step):
    change = parse_flag(step, TYPED[step])
    for is_supposed in (False, True):
        assert "{" not in changes_in_words([change], is_supposed=is_supposed)


@pytest.mark.parametrize("question", asked_on_page(), ids=lambda question: question.name)
def test_every_field_of_the_sentence_is_one_of_the_request(question):
    names = {field.name for field in question.said()} | ({"changes"} if question.takes_changes else set())
    assert question.asks.count("{") >= 1
    assert set(re.findall(r"\{(\w+)\}", question.asks)) <= names
    for field in question.fields():
        assert field.said is not None, f"{field.name} has no words"


@pytest.mark.parametrize("name", ASKED)
def test_every_question_says_what_was_asked_of_it(name):
    situation, request = ASKED[name]()
    said = asked_in_words(QUESTIONS[name], request, situation.steps if situation is not None else ())
    assert "{" not in said and "  " not in said
    assert not QUESTIONS[name].asks or said[-1] in ".?"
