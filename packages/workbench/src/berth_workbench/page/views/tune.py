"""The form of the page that tunes: objectives, and how much may be tried."""

from typing import Any

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.objectives import PARTED, WHOLE
from berth_workbench.page.views.compare import REPLACE_ALL, load_of
from berth_workbench.page.views.questions import OwnForm, Values
from berth_workbench.questions.tune import TuneRequest
from berth_workbench.snapshot.snapshot import Snapshot

MOST_RUNS = 1000
HINT = (
    f"One a line, at most two: {', '.join(WHOLE)}, {', '.join(f'{name}.cpu' for name in list(PARTED)[:2])} and so on."
)
FIELDS: list[dict[str, Any]] = [
    {"name": "objectives", "label": "Objectives", "kind": "area", "rows": 2,
     "value": "packing.cpu\nfragmentation.cpu", "hint": HINT},
    {"name": "budget", "label": "Runs", "kind": "number", "value": "60"},
    REPLACE_ALL | {"value": True},
]  # fmt: skip


def _read(values: Values, snapshot: Snapshot, configuration: ConfigurationSource) -> TuneRequest:
    budget = str(values.get("budget", ""))
    if not budget.isdecimal() or not 0 < int(budget) <= MOST_RUNS:
        raise ValueError(f"runs: a number up to {MOST_RUNS} is expected, not {budget!r}")
    objectives = tuple(str(values.get("objectives", "")).split())
    return TuneRequest(objectives, configuration, load_of(snapshot, values), budget=int(budget))


FORM = OwnForm(FIELDS, _read)
