"""Topology spread constraints: a larger maxSkew, or ScheduleAnyway."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from berth.api.meta import LabelSelector
from berth.api.selectors import SelectorError, compile_selector
from berth.state.label_index import ABSENT
from berth_workbench.planning.help.needs import POD_COST, Need, Numbers, PodEdit, PodQuestion, setting, without

Json = dict[str, Any]

PLUGIN = "PodTopologySpread"
FIELD = "topologySpreadConstraints"
HOSTNAME = "kubernetes.io/hostname"
MAX_SKEW = 2**31 - 1


class SpreadingNeeds:
    """PodTopologySpread."""

    plugins = frozenset({PLUGIN})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each constraint that must hold, and one for those that a profile has for every pod."""
        constraints = question.spec.get(FIELD) or []
        counted = _policies(question)
        if not constraints:
            failing = question.failing(counted, PLUGIN)
            if failing.any():
                yield Need(("spread",), PLUGIN, failing, may_be_freed=failing)
        for index, constraint in enumerate(constraints):
            if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
                continue
            failing = question.failing({**counted, FIELD: [constraint]}, PLUGIN)
            is_readable = _is_readable(question.info.spec.topology_spread_constraints[index].label_selector)
            edits = [_skewed(index, constraint, 1), (_anyway if is_readable else _without)(index, constraint)]
            if constraint["topologyKey"] != HOSTNAME and is_readable:
                edits.append(_over_nodes(index, constraint))
            labelled = question.table.label(constraint["topologyKey"]).ids != ABSENT
            yield Need(("spread", index), PLUGIN, failing, pod_edits=edits, may_be_freed=failing & labelled)


def _policies(question: PodQuestion) -> Json:
    """Return what decides which nodes count for a constraint."""
    spec = question.spec
    parts: Json = {"tolerations": spec.get("tolerations") or []}
    if spec.get("nodeSelector"):
        parts["nodeSelector"] = spec["nodeSelector"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    return {**parts, "affinity": {"nodeAffinity": affinity}} if affinity else parts


def _name(constraint: Json) -> str:
    return f"the spread over {constraint['topologyKey']}"


def _skewed(index: int, constraint: Json, more: int) -> PodEdit:
    before: int = constraint["maxSkew"]
    what = f"raise maxSkew of {_name(constraint)} from {before} to {before + more}"
    numbers = Numbers(MAX_SKEW - before, partial(_skewed, index, constraint))
    edit = setting("spec", FIELD, index, "maxSkew", to=before + more)
    return PodEdit("maxSkew", what, edit, POD_COST * (1 - 1 / (1 + more)), numbers=numbers)


def _over_nodes(index: int, constraint: Json) -> PodEdit:
    edit = setting("spec", FIELD, index, "topologyKey", to=HOSTNAME)
    what = f"spread over {HOSTNAME} instead of {constraint['topologyKey']}"
    return PodEdit("spreadKey", what, edit, POD_COST * 0.9)


def _is_readable(selector: LabelSelector | None) -> bool:
    """Say whether a selector can be evaluated; a wish that cannot fails the scoring instead of the filter."""
    try:
        compile_selector(selector)
    except SelectorError:
        return False
    return True


def _without(index: int, constraint: Json) -> PodEdit:
    return PodEdit("spread", f"drop {_name(constraint)}", without("spec", FIELD, index))


def _anyway(index: int, constraint: Json) -> PodEdit:
    def edit(document: Json) -> None:
        found = document["spec"][FIELD][index]
        found["whenUnsatisfiable"] = "ScheduleAnyway"
        found.pop("minDomains", None)  # allowed with DoNotSchedule only

    return PodEdit("spread", f"make {_name(constraint)} a wish (ScheduleAnyway)", edit)
