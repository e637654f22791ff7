"""The form of the page on capacity: a shape that is typed, or manifests."""

import json
from typing import Any

from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.page.views.questions import OwnForm, Values
from berth_workbench.questions.capacity import CapacityRequest
from berth_workbench.snapshot.documents import Document, parse_manifests
from berth_workbench.snapshot.snapshot import Snapshot

AT_MOST = 100_000
FIELDS: list[dict[str, Any]] = [
    {"name": "cpu", "label": "CPU of a pod", "kind": "text", "value": "1", "hint": "1, 500m"},
    {"name": "memory", "label": "Memory of a pod", "kind": "text", "value": "2Gi", "hint": "2Gi"},
    {"name": "others", "label": "Other resources", "kind": "text",
     "hint": "nvidia.com/gpu=1, one after the other, with commas."},
    {"name": "manifests", "label": "Or the manifest of a pod or of workloads", "kind": "area",
     "rows": 5, "hint": "Instead of the shape above; a file can be dropped here."},
]  # fmt: skip


def _read(values: Values, _snapshot: Snapshot, _configuration: ConfigurationSource) -> CapacityRequest:
    return CapacityRequest(tuple(shape_of(values)), at_most=AT_MOST)


def shape_of(values: Values) -> list[Document]:
    """Return what is to fit: the manifests, or a pod that requests what was typed. Raises ValueError."""
    typed = str(values.get("manifests", ""))
    if typed.strip():
        return list(parse_manifests(typed.encode(), "manifests"))
    requests = {name: str(values.get(name, "")).strip() for name in ("cpu", "memory")}
    for part in str(values.get("others", "")).split(","):
        name, equals, amount = (each.strip() for each in part.partition("="))
        if name and not (equals and amount):
            raise ValueError(f"other resources: NAME=AMOUNT is expected, not {part.strip()!r}")
        requests[name] = amount
    requests = {name: amount for name, amount in requests.items() if name and amount}
    if not requests:
        raise ValueError("what is to fit? type what a pod requests, or a manifest")
    container = {"name": "c", "image": "any", "resources": {"requests": requests, "limits": _limits(requests)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shape"}, "spec": {"containers": [container]}}
    return list(parse_manifests(json.dumps(pod).encode(), "the shape"))


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources are requested as much as they are limited."""
    return {name: amount for name, amount in requests.items() if "/" in name}


FORM = OwnForm(FIELDS, _read)
