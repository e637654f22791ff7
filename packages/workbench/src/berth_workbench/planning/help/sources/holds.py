"""What keeps a pod from being scheduled at all: gates, a scheduler that nobody is, a node named by hand."""

from collections.abc import Iterable
from typing import Any

from berth_workbench.planning.help.needs import Need, PodEdit, PodQuestion, setting, without

Json = dict[str, Any]


class HoldingNeeds:
    """SchedulingGates, NodeName, and the name of the scheduler."""

    plugins = frozenset({"SchedulingGates", "NodeName"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield one need for each of the three that applies."""
        spec, everywhere = question.spec, question.valid.copy()
        gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
        if gates:
            what = f"remove the scheduling gate{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
            # Entry by entry, and not the list as a whole: a patch of a list that merges cannot leave it out.
            edit = PodEdit("schedulingGate", what, setting("spec", "schedulingGates", to=[]), 0.5)
            yield Need(("gates",), "SchedulingGates", everywhere, pod_edits=(edit,))
        profiles = question.filters.core.profiles
        if spec["schedulerName"] not in profiles:
            edits = [
                PodEdit("schedulerName", f"set schedulerName: {name}", setting("spec", "schedulerName", to=name))
                for name in profiles
            ]
            yield Need(("scheduler",), "", everywhere, pod_edits=edits)
        if spec.get("nodeName"):
            failing = question.failing({"nodeName": spec["nodeName"]}, "NodeName")
            edit = PodEdit("nodeName", f"leave out nodeName: {spec['nodeName']}", without("spec", "nodeName"))
            yield Need(("nodeName",), "NodeName", failing, pod_edits=(edit,))
