"""Volumes: what each of them asks of a node."""

from collections.abc import Iterable
from typing import Any

from berth_workbench.planning.help.needs import Need, PodEdit, PodQuestion, without

Json = dict[str, Any]

LOSING_DATA = 8.0
"""To do without a volume is a change, but seldom the one that is wanted."""


class VolumeNeeds:
    """VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits."""

    plugins = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each volume that some node does not suit."""
        for index, volume in enumerate(question.spec.get("volumes") or ()):
            answer = question.ask_part({"volumes": [volume]})
            failing = question.valid & ~answer.fits & ~question.bare
            if failing.any():
                freed = failing & answer.resolvable()
                edit = _without(volume, index)
                yield Need(("volume", volume["name"]), "VolumeBinding", failing, pod_edits=(edit,), may_be_freed=freed)


def _without(volume: Json, index: int) -> PodEdit:
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    name = f"the claim {claim}" if claim else f"the volume {volume['name']}"
    edit = without("spec", "volumes", index)
    return PodEdit("volume", f"do without {name} (and its mounts), or use another", edit, LOSING_DATA)
