"""Which questions have a page. All have a command, for which `berth_workbench.cli` names their modules."""

import importlib
from functools import cache
from typing import Any

from berth_workbench.questions.question import Question

ON_PAGE = ("whatif", "capacity", "survive", "wait", "autoscale", "rebalance", "upgrade_plan", "compare", "tune")
"""The modules whose questions the page asks, in the order of its navigation."""


@cache
def asked_on_page() -> tuple[Question[Any, Any], ...]:
    """Return the questions that the page asks."""
    package = __name__.rpartition(".")[0]
    return tuple(importlib.import_module(f"{package}.{name}").QUESTION for name in ON_PAGE)
