"""Resource claims: the devices that a pod asks for."""

from collections.abc import Iterable
from typing import Any

from berth_workbench.planning.help.needs import Need, PodEdit, PodQuestion

Json = dict[str, Any]

WITHOUT_DEVICES = 8.0


class DeviceNeeds:
    """DynamicResources."""

    plugins = frozenset({"DynamicResources"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each claim that cannot be satisfied on some node."""
        for index, claim in enumerate(question.spec.get("resourceClaims") or ()):
            failing = question.failing({"resourceClaims": [claim]})
            if failing.any():
                key = ("resourceClaim", claim["name"])
                yield Need(key, "DynamicResources", failing, pod_edits=(_without(claim, index),), may_be_freed=failing)


def _without(claim: Json, index: int) -> PodEdit:
    def edit(document: Json) -> None:
        spec = document["spec"]
        del spec["resourceClaims"][index]
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            if resources.get("claims"):
                resources["claims"] = [use for use in resources["claims"] if use.get("name") != claim["name"]]

    name = claim.get("resourceClaimName") or claim["name"]
    return PodEdit("resourceClaim", f"do without the devices of the claim {name}", edit, WITHOUT_DEVICES)
