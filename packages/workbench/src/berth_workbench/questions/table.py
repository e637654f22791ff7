"""Which questions there are, and which have a page. All have a command, whose module `berth_workbench.cli` names.

Other packages have questions of theirs on the page by an entry point of the group `berth.pages`, which leads to a tuple
of `QuestionPage`.
"""

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from berth_workbench.questions.question import Question

ON_PAGE = ("whatif", "capacity", "survive", "wait", "autoscale", "rebalance", "upgrade_plan", "compare", "tune")
"""The modules whose questions the page asks, in the order of its navigation."""
_PACKAGE = __name__.rpartition(".")[0]


class QuestionPage(NamedTuple):
    """A question of another package, where the side bar has it, and for which clusters."""

    question: Question[Any, Any]
    group: str
    """The heading in the side bar: `Cluster` or `Questions`."""
    icon: str
    """Of the Material icons."""
    kinds: tuple[str, ...]
    """It is listed where a cluster has an object of one of these kinds."""


@cache
def pages_of_others() -> tuple[QuestionPage, ...]:
    """Return the questions of other packages, package by package; one that cannot be imported is passed over."""
    found: list[QuestionPage] = []
    for point in sorted(entry_points(group="berth.pages"), key=lambda each: each.name):
        try:
            found += (each for each in point.load() if isinstance(each, QuestionPage))
        except Exception:  # a stranger's module may raise anything, and `berth --help` names it where it has commands
            continue
    return tuple(found)


@cache
def asked_on_page() -> tuple[Question[Any, Any], ...]:
    """Return the questions that the page asks."""
    return tuple(importlib.import_module(f"{_PACKAGE}.{name}").QUESTION for name in ON_PAGE)


@cache
def all_questions() -> tuple[Question[Any, Any], ...]:
    """Return all questions, by name: every module of this package that has one."""
    names = (each.name for each in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__))
    modules = (importlib.import_module(f"{_PACKAGE}.{name}") for name in names)
    return tuple(sorted((each.QUESTION for each in modules if hasattr(each, "QUESTION")), key=lambda one: one.name))
