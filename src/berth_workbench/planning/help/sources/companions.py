"""Pods that a pod wants beside it, those it keeps away from, and those that keep it away."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.selectors import SelectorError
from berth.state.label_index import ABSENT
from berth_workbench.planning.help.needs import Need, PodEdit, Question, without

Json = dict[str, Any]
Mask = NDArray[np.bool_]

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
                frees = failing if field == "podAntiAffinity" else failing & _where_the_first_may_go(question, term)
                yield Need((field, index), PLUGIN, failing, pod_edits=(edit,), may_be_freed=frees)


def _where_the_first_may_go(question: Question, term: Json) -> Mask:
    """Return the rows that a pod with a term of affinity may take once nobody is left of those that it wants beside it.

    The first pod of a series that wants its own kind beside it may go wherever the term's label is.
    """
    info, namespaces = question.info, question.prover.core.cache.index.namespaces
    try:
        is_own_kind = all(
            term.matches(info, namespaces.get(info.namespace, {})) for term in info.required_affinity_terms
        )
    except SelectorError:
        is_own_kind = False  # such a term matches nobody
    labelled: Mask = question.table.label(term["topologyKey"]).ids != ABSENT
    return labelled if is_own_kind else np.zeros_like(question.valid)


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
    edit = without("spec", "affinity", field, REQUIRED, index)
    to = selector_words(term.get("labelSelector"))
    return PodEdit(field, f"drop the {WORDS[field]} to {to} by {term.get('topologyKey')}", edit)
