"""The form of the page that compares: two configurations as they are written."""

from typing import Any

from berth.config.document import parse_document
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.page.views.questions import OwnForm, Values
from berth_workbench.questions.compare import CompareRequest
from berth_workbench.snapshot.snapshot import Snapshot

EXAMPLE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated}
"""
REPLACE_ALL: dict[str, Any] = {
    "name": "all", "label": "Place running pods anew, too", "kind": "check",
    "hint": "Those that a controller owns; otherwise only what is pending is placed.",
}  # fmt: skip
FIELDS: list[dict[str, Any]] = [
    {"name": "a", "label": "Configuration A", "kind": "area", "rows": 9, "value": "",
     "hint": "A KubeSchedulerConfiguration; empty for the one in use."},
    {"name": "b", "label": "Configuration B", "kind": "area", "rows": 9, "value": EXAMPLE},
    REPLACE_ALL,
]  # fmt: skip


def _read(values: Values, snapshot: Snapshot, configuration: ConfigurationSource) -> CompareRequest:
    a, b = (_configuration(name, str(values.get(name.lower(), "")), configuration) for name in ("A", "B"))
    return CompareRequest(a, b, load_of(snapshot, values))


def load_of(snapshot: Snapshot, values: Values) -> ClusterLoad:
    """Return the pods to be placed. Raises ValueError where there are none."""
    load = ClusterLoad.of(snapshot, replaces_all=bool(values.get("all")))
    if not load.pods:
        raise ValueError("there are no pods to place: none is pending; place the running ones anew, too")
    return load


def _configuration(name: str, text: str, own: ConfigurationSource) -> ConfigurationSource:
    """What was typed, checked. No plugin is loaded that is not installed, or named on the command line."""
    if not text.strip():
        return own
    found = ConfigurationSource.of_document(name, parse_document(text.encode(), f"configuration {name}"), own.plugins)
    found.load()
    return found


FORM = OwnForm(FIELDS, _read)
