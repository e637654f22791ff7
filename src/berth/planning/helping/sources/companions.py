"""Pods that a pod wants beside it, those it keeps away from, and those that keep it away."""

from collections.abc import Iterable
from typing import Any

from berth.planning.helping.needs import Need, PodEdit, Question

Json = dict[str, Any]

PLUGIN = "InterPodAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WORDS = {"podAffinity": "affinity", "podAntiAffinity": "anti-affinity"}


class CompanionNeeds:
    """InterPodAffinity."""

    plugins = frozenset({PLUGIN})

    def needs(self, question: Question) -> Iterable[Need]:
        """Yield a need for each required term, and one for the terms of running pods that match this one."""
        existing = question.failing({}, PLUGIN)
        if existing.any():
            yield Need(("existing",), PLUGIN, existing, may_be_freed=existing)
        for field in WORDS:
            terms = ((question.spec.get("affinity") or {}).get(field) or {}).get(REQUIRED) or []
            for index, term in enumerate(terms):
                failing = question.failing({"affinity": {field: {REQUIRED: [term]}}}, PLUGIN) & ~existing
                edit = _without(field, index, term)
                frees = failing if field == "podAntiAffinity" else None
                yield Need((field, index), PLUGIN, failing, pod_edits=(edit,), may_be_freed=frees)


def selector_words(selector: Json | None) -> str:
    """Return what a label selector selects, in words."""
    if selector is None:
        return "no pods"
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = each.get("values") or ()
        parts.append(f"{each['key']} {each['operator']}" + (f" [{', '.join(values)}]" if values else ""))
    return ",".join(parts) or "all pods"


def _without(field: str, index: int, term: Json) -> PodEdit:
    def edit(document: Json) -> None:
        terms = document["spec"]["affinity"][field][REQUIRED]
        del terms[index]

    to = selector_words(term.get("labelSelector"))
    return PodEdit(field, f"drop the {WORDS[field]} to {to} by {term.get('topologyKey')}", edit)
