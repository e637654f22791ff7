"""Which questions there are, and which have a page. All have a command, whose module `berth_workbench.cli` names."""

import importlib
import pkgutil
from functools import cache
from typing import Any

from berth_workbench.questions.question import Question

ON_PAGE = ("whatif", "capacity", "survive", "wait", "autoscale", "rebalance", "upgrade_plan", "compare", "tune")
"""The modules whose questions the page asks, in the order of its navigation."""
_PACKAGE = __name__.rpartition(".")[0]


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
