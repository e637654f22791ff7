"""Ports of the node."""

from collections.abc import Iterable
from typing import Any

from berth_workbench.planning.help.needs import Need, PodEdit, PodQuestion, without

Json = dict[str, Any]


class PortNeeds:
    """NodePorts."""

    plugins = frozenset({"NodePorts"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each port of the node that the pod wants."""
        for field in ("containers", "initContainers"):
            for index, container in enumerate(question.spec.get(field) or ()):
                for place, port in enumerate(container.get("ports") or ()):
                    if port.get("hostPort", 0) <= 0:
                        continue
                    failing = question.failing({"containers": [{"name": "c", "ports": [port]}]})
                    edit = _without(field, index, place, port)
                    key = ("hostPort", field, index, place)
                    yield Need(key, "NodePorts", failing, pod_edits=(edit,), may_be_freed=failing)


def _without(field: str, index: int, place: int, port: Json) -> PodEdit:
    edit = without("spec", field, index, "ports", place, "hostPort")
    return PodEdit("hostPort", f"do without the host port {port['hostPort']}/{port.get('protocol') or 'TCP'}", edit)
