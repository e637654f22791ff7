"""What a pod names and the cluster does not have: an object that nobody has made yet, or a slip of the keyboard.

The scheduler says of it no more than "not found", or that no node matches. Whoever is told why a pod waits reads this
first: lists of pending pods, `berth explain` and what would help.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from berth.api.near_names import nearest
from berth.api.pools import ARCH, OS
from berth.core.core import Core
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable


class NamedInVain(NamedTuple):
    """Something that is not there."""

    kind: str
    """Of the object; `label` for a label that no node has."""
    name: str
    sentence: str
    """Without a full stop: `the StorageClass fast of the claim data does not exist; did you mean faster?`."""


def named_in_vain(core: Core, pod: PodInfo) -> Iterator[NamedInVain]:
    """Yield what a pod names of the objects that the scheduler follows, and the cluster does not have."""
    if next(core.objects.list("Namespace"), None) is not None:
        yield from _lacking(core, "Namespace", pod.namespace)
    yield from _of_volumes(core, pod)
    yield from _of_devices(core, pod)
    group = pod.spec.scheduling_group
    if core.schedules_groups and group is not None and group.pod_group_name:
        yield from _lacking(core, "PodGroup", group.pod_group_name, pod.namespace)
    for key, value in pod.spec.node_selector.items():
        yield from _of_label(core.cache.table, key, value)


def _of_volumes(core: Core, pod: PodInfo) -> Iterator[NamedInVain]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = core.objects.get("PersistentVolumeClaim", name, pod.namespace)
        if claim is None:
            yield from _lacking(core, "PersistentVolumeClaim", name, pod.namespace)
        elif claim.spec.volume_name:
            of = f", which {name} is bound to,"
            yield from _lacking(core, "PersistentVolume", claim.spec.volume_name, of=of)
        elif claim.spec.storage_class_name:
            yield from _lacking(core, "StorageClass", claim.spec.storage_class_name, of=f" of the claim {name}")


def _of_devices(core: Core, pod: PodInfo) -> Iterator[NamedInVain]:
    for use in pod.spec.resource_claims:
        name = use.resource_claim_name or ""
        claim = core.objects.get("ResourceClaim", name, pod.namespace) if name else None
        if name and claim is None:
            yield from _lacking(core, "ResourceClaim", name, pod.namespace)
        for request in claim.spec.devices.requests if claim is not None else ():
            of_class = request.exactly.device_class_name if request.exactly is not None else ""
            if of_class:
                yield from _lacking(core, "DeviceClass", of_class, of=f" of the claim {name}")


def _of_label(table: NodeTable, key: str, value: str) -> Iterator[NamedInVain]:
    """Look in the column that the filter has made: no node is looked at where one has the label."""
    rows = table.rows()
    column = table.label(key)
    values = [column.values[each] for each in np.unique(column.ids[rows]).tolist() if each >= 0]
    if not len(rows) or value in values:
        return
    if key in (ARCH, OS):  # that a node is of another kind is no slip
        hint = ""
    elif values:
        hint = nearest(value, values).replace("did you mean ", f"did you mean {key}=")
    else:
        hint = nearest(key, {other for row in rows.tolist() for other in table.node(row).metadata.labels})
    yield NamedInVain("label", f"{key}={value}", f"no node has the label {key}={value}{hint}")


def _lacking(core: Core, kind: str, name: str, namespace: str = "", *, of: str = "") -> Iterator[NamedInVain]:
    if core.objects.get(kind, name, namespace) is None:
        known = [each.metadata.name for each in core.objects.list(kind, namespace or None)]
        word = "namespace" if kind == "Namespace" else kind
        yield NamedInVain(kind, name, f"the {word} {name}{of} does not exist{nearest(name, known)}")


def in_sentences(missing: Iterable[str]) -> str:
    """Return clauses that say what is missing as sentences."""
    told = (each if each.endswith("?") else f"{each}." for each in missing)
    return " ".join(f"{each[:1].upper()}{each[1:]}" for each in told)
