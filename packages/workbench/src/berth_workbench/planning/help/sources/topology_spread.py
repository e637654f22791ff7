"""Topology spread constraints: a larger maxSkew, or ScheduleAnyway."""

from collections.abc import Iterable
from typing import Any

from berth.api.codec import decode
from berth.api.meta import LabelSelector
from berth.api.selectors import SelectorError, compile_selector
from berth.state.label_index import ABSENT
from berth_workbench.planning.help.needs import POD_COST, Need, PodEdit, PodQuestion, setting, without

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
            edits: tuple[PodEdit, ...] = ((_anyway if is_readable else _without)(index, constraint),)
            skew = _least_skew(question, index, constraint) if failing.any() else None
            if constraint["topologyKey"] != HOSTNAME and is_readable:
                edits = (_over_nodes(index, constraint), *edits)
            if skew is not None:
                edits = (_skewed(index, constraint, skew), *edits)
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


def _least_skew(question: PodQuestion, index: int, constraint: Json) -> int | None:
    """Return the least maxSkew with which the whole pod fits somewhere; None where no maxSkew does."""

    def fits(skew: int) -> bool:
        document = question.edited(_skewed(index, constraint, skew))
        return question.filters.ask(decode("Pod", document)).is_yes

    low: int = constraint["maxSkew"]
    if not fits(MAX_SKEW):
        return None
    step = 1
    while not fits(low + step):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _name(constraint: Json) -> str:
    return f"the spread over {constraint['topologyKey']}"


def _skewed(index: int, constraint: Json, skew: int) -> PodEdit:
    edit = setting("spec", FIELD, index, "maxSkew", to=skew)
    before = constraint["maxSkew"]
    what = f"raise maxSkew of {_name(constraint)} from {before} to {skew}"
    return PodEdit("maxSkew", what, edit, POD_COST * (1 - 1 / (1 + skew - before)))


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
