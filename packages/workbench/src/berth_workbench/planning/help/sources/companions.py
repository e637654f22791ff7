"""Pods that a pod wants beside it, those it keeps away from, and those that keep it away."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.selectors import SelectorError, compile_selector
from berth.state.label_index import ABSENT
from berth_workbench.planning.help.needs import POD_COST, Need, PodEdit, PodQuestion, setting, without

Json = dict[str, Any]
Mask = NDArray[np.bool_]

PLUGIN = "InterPodAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WORDS = {"podAffinity": "affinity", "podAntiAffinity": "anti-affinity"}
VERBS = {"podAffinity": "be beside", "podAntiAffinity": "keep apart from"}
OTHER_PLACE = {"podAffinity": "topology.kubernetes.io/zone", "podAntiAffinity": "kubernetes.io/hostname"}
"""Where it is easier to be together, and where to be apart."""


class CompanionNeeds:
    """InterPodAffinity."""

    plugins = frozenset({PLUGIN})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each required term, and one for the terms of running pods that match this one."""
        existing = _kept_away(question)
        if existing.any():
            yield Need(("existing",), PLUGIN, existing, may_be_freed=existing)
        for field in WORDS:
            terms = ((question.spec.get("affinity") or {}).get(field) or {}).get(REQUIRED) or []
            for index, term in enumerate(terms):
                failing = question.failing({"affinity": {field: {REQUIRED: [term]}}}, PLUGIN) & ~existing
                edits = tuple(_weaker(question, field, index, term))
                frees = failing if field == "podAntiAffinity" else failing & _where_the_first_may_go(question, term)
                yield Need((field, index), PLUGIN, failing, pod_edits=edits, may_be_freed=frees)


def _kept_away(question: PodQuestion) -> Mask:
    """Return the rows from which terms of running pods keep this one.

    Those of its own workload are the terms that it has itself, and are given up with them.
    """
    terms = ((question.spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(REQUIRED)
    objects = question.filters.cluster.objects
    with question.filters.without(pod.key for pod in question.group.running if terms and ("Pod", pod.key) in objects):
        return question.failing({}, PLUGIN)


def _where_the_first_may_go(question: PodQuestion, term: Json) -> Mask:
    """Return the rows that a pod with a term of affinity may take once nobody is left of those that it wants beside it.

    The first pod of a series that wants its own kind beside it may go wherever the term's label is.
    """
    info, namespaces = question.info, question.filters.core.cache.index.namespaces
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


def _weaker(question: PodQuestion, field: str, index: int, term: Json) -> Iterable[PodEdit]:
    """Yield how a term could ask for less: of a smaller place to keep apart in, of a larger one to be together in.

    Then as a preference, which no filter enforces; only what cannot be read is dropped, since it would fail a score.
    """
    who, key = selector_words(term.get("labelSelector")), term["topologyKey"]
    if not _is_readable(question, field, index):
        what = f"drop the {WORDS[field]} to {who} by {key}"
        yield PodEdit(field, what, without("spec", "affinity", field, REQUIRED, index))
        return
    other, verb = OTHER_PLACE[field], VERBS[field]
    if key != other and (question.table.label(other).ids != ABSENT)[question.valid].any():
        place = setting("spec", "affinity", field, REQUIRED, index, "topologyKey", to=other)
        yield PodEdit(field, f"{verb} {who} by {other} instead of {key}", place, POD_COST * 0.6)

    def prefer(document: Json) -> None:
        found = document["spec"]["affinity"][field]
        found[REQUIRED] = [*found[REQUIRED][:index], *found[REQUIRED][index + 1 :]]
        found[PREFERRED] = [*(found.get(PREFERRED) or ()), {"weight": 100, "podAffinityTerm": term}]

    what = f"prefer to {verb} {who} by {key} instead of requiring it"
    yield PodEdit(field, what, prefer, POD_COST * 0.8)


def _is_readable(question: PodQuestion, field: str, index: int) -> bool:
    affinity = question.info.spec.affinity
    assert affinity is not None, "the term is of it"
    of_kind = affinity.pod_affinity if field == "podAffinity" else affinity.pod_anti_affinity
    assert of_kind is not None, "the term is of it"
    try:
        compile_selector(of_kind.required[index].label_selector)
    except SelectorError:
        return False
    return True
