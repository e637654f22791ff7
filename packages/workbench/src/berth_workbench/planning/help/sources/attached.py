"""What a pod takes of a node beside amounts: its ports, volumes and devices, one by one."""

from collections.abc import Iterable
from typing import Any

from berth_workbench.planning.help.needs import Need, PodEdit, PodQuestion, without

Json = dict[str, Any]

LOSING_DATA = 8.0
"""To do without a volume is a change, but seldom the one that is wanted."""
WITHOUT_DEVICES = 8.0


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
                    edit = _without_port(field, index, place, port)
                    key = ("hostPort", field, index, place)
                    yield Need(key, "NodePorts", failing, pod_edits=(edit,), may_be_freed=failing)


def _without_port(field: str, index: int, place: int, port: Json) -> PodEdit:
    edit = without("spec", field, index, "ports", place, "hostPort")
    return PodEdit("hostPort", f"do without the host port {port['hostPort']}/{port.get('protocol') or 'TCP'}", edit)


class VolumeNeeds:
    """VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits."""

    plugins = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each volume that some node does not suit."""
        for index, volume in enumerate(question.spec.get("volumes") or ()):
            failing = question.failing({"volumes": [volume]})
            if failing.any():
                edit, key = _without_volume(volume, index), ("volume", volume["name"])
                yield Need(key, "VolumeBinding", failing, pod_edits=(edit,), may_be_freed=failing)


def _without_volume(volume: Json, index: int) -> PodEdit:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    name = f"the claim {claim}" if claim else f"the volume {volume['name']}"
    edit = without("spec", "volumes", index)
    return PodEdit("volume", f"do without {name} (and its mounts), or use another", edit, LOSING_DATA)


class DeviceNeeds:
    """DynamicResources."""

    plugins = frozenset({"DynamicResources"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each claim that cannot be satisfied on some node."""
        for index, claim in enumerate(question.spec.get("resourceClaims") or ()):
            failing = question.failing({"resourceClaims": [claim]})
            if failing.any():
                key = ("resourceClaim", claim["name"])
                yield Need(
                    key, "DynamicResources", failing, pod_edits=(_without_claim(claim, index),), may_be_freed=failing
                )


def _without_claim(claim: Json, index: int) -> PodEdit:
    def edit(document: Json) -> None:
        spec = document["spec"]
        del spec["resourceClaims"][index]
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            if resources.get("claims"):
                resources["claims"] = [use for use in resources["claims"] if use.get("name") != claim["name"]]

    name = claim.get("resourceClaimName") or claim["name"]
    return PodEdit("resourceClaim", f"do without the devices of the claim {name}", edit, WITHOUT_DEVICES)
