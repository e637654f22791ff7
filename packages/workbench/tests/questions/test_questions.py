"""Every question: asked by its command and its page from one description, and answered with a verdict first."""

import ast
import importlib
from pathlib import Path

import pytest
from msgspec import NODEFAULT

import berth_workbench
from berth_workbench.cli import ASKING, COMMANDS
from berth_workbench.cli.asking import command_of
from berth_workbench.page.views.forms import OWN, USUAL, Form
from berth_workbench.questions.question import Question
from berth_workbench.questions.table import ON_PAGE
from berth_workbench.questions.typed import value_of

SOURCES = Path(berth_workbench.__file__).parent
MODULES = sorted(
    path.stem for path in (SOURCES / "questions").glob("*.py") if "QUESTION = Question(" in path.read_text()
)


def question_of(module):
    found = importlib.import_module(f"berth_workbench.questions.{module}").QUESTION
    assert isinstance(found, Question)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_each_question_has_a_command_of_its_name(module):
    question = question_of(module)
    entry = COMMANDS.commands.get(question.name)
    if entry is None:
        assert question.name in COMMANDS.extensions, "it is part of a command of the scheduler's"
    elif entry.made_by:
        assert (entry.module, entry.made_by) == (f"berth_workbench.questions.{module}", ASKING)
        made = command_of(importlib.import_module(entry.module))
        asked = {field.name for field in question.fields()}
        assert asked <= {param.name for param in made.params}


@pytest.mark.parametrize("module", ON_PAGE)
def test_what_a_form_holds_when_nothing_is_typed_is_the_default_of_the_request(module):
    """But for what the page leaves smaller, since people wait there."""
    form = Form(question_of(module))
    usual = form.usual()
    for field in form.question.fields():
        is_own = field.name in OWN.get(form.question.name, {}) or (form.question.name, field.name) in USUAL
        if field.ask.on_page and not is_own and field.default is not NODEFAULT:
            assert value_of(field, usual[field.name]) == field.default, field.name


@pytest.mark.parametrize("module", ON_PAGE)
def test_every_field_that_the_page_asks_for_has_words(module):
    form = Form(question_of(module))
    usual = form.usual()
    assert all(form.words(name, usual) for name in form.names())


@pytest.mark.parametrize(
    ("field", "typed", "problem"),
    [
        ("at_most", "many", "a whole number from 0 to 1,000,000 is expected"),
        ("at_most", "2.5", "a whole number"),
        ("at_most", "-1", "a whole number"),
        ("kinds", "node, rack", "there are node, zone, pool, not 'rack'"),
    ],
)
def test_what_cannot_be_read_is_told(field, typed, problem):
    fields = {each.name: each for each in question_of("survive").fields()}
    with pytest.raises(ValueError, match=problem):
        value_of(fields[field], typed)


def test_simulated_clusters_are_made_in_one_room():
    """Whoever asks takes a `Site`, so that what plugins follow, pending pods and refusals are the same everywhere."""
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        where = path.relative_to(SOURCES).as_posix()
        if where.startswith("simulation/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "SimulatedCluster":
                found.add(where)
    assert found == set()
