"""Finds what a pod names but the cluster does not have: an object not created yet, or a typo.

The scheduler only says "not found", or that no node matches. Lists of pending pods, `berth explain` and the answers to
what would help show this first.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from berth.api.near_names import nearest
from berth.api.pools import ARCH, OS
from berth.core.core import Core
from berth.framework.work_budget import STEPS_TO_TELL, OutOfBudgetError, WorkBudget
from berth.state.label_index import values_at
from berth.state.pod_info import PodInfo

NAMES_COMPARED = 2000
"""Among how many names to look for the intended one."""
STEPS_TO_COMPARE = 10
"""The steps, in a work budget, of comparing two names; an object that only has to be read costs 1."""
HINTS = "hints"
"""The spender."""


class NamedInVain(NamedTuple):
    """Something that does not exist."""

    kind: str
    """Of the object; `label` for a label that no node has."""
    name: str
    sentence: str
    """Without a full stop: `the StorageClass fast of the claim data does not exist; did you mean faster?`."""


def named_in_vain(core: Core, pod: PodInfo, work: WorkBudget | None = None) -> Iterator[NamedInVain]:
    """Yield what a pod names, among the kinds that the scheduler follows, but the cluster does not have.

    Suggestions are made while `work` has anything left; callers that ask about several pods give them one budget.
    """
    look = _Look(core, work or WorkBudget(STEPS_TO_TELL))
    if next(core.objects.list("Namespace"), None) is not None:
        yield from look.for_object("Namespace", pod.namespace)
    yield from _of_volumes(look, pod)
    yield from _of_devices(look, pod)
    group = pod.spec.scheduling_group
    if core.schedules_groups and group is not None and group.pod_group_name:
        yield from look.for_object("PodGroup", group.pod_group_name, pod.namespace)
    for key, value in pod.spec.node_selector.items():
        yield from look.for_label(key, value)


def _of_volumes(look: "_Look", pod: PodInfo) -> Iterator[NamedInVain]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = look.core.objects.get("PersistentVolumeClaim", name, pod.namespace)
        if claim is None:
            yield from look.for_object("PersistentVolumeClaim", name, pod.namespace)
        elif claim.spec.volume_name:
            of = f", which {name} is bound to,"
            yield from look.for_object("PersistentVolume", claim.spec.volume_name, of=of)
        elif claim.spec.storage_class_name:
            yield from look.for_object("StorageClass", claim.spec.storage_class_name, of=f" of the claim {name}")


def _of_devices(look: "_Look", pod: PodInfo) -> Iterator[NamedInVain]:
    for use in pod.spec.resource_claims:
        name = use.resource_claim_name or ""
        claim = look.core.objects.get("ResourceClaim", name, pod.namespace) if name else None
        if name and claim is None:
            yield from look.for_object("ResourceClaim", name, pod.namespace)
        for request in claim.spec.devices.requests if claim is not None else ():
            of_class = request.exactly.device_class_name if request.exactly is not None else ""
            if of_class:
                yield from look.for_object("DeviceClass", of_class, of=f" of the claim {name}")


class _Look(NamedTuple):
    """A lookup of things by name."""

    core: Core
    work: WorkBudget

    def for_object(self, kind: str, name: str, namespace: str = "", *, of: str = "") -> Iterator[NamedInVain]:
        objects = self.core.objects
        if objects.get(kind, name, namespace) is None:
            known = (each.metadata.name for each in objects.list(kind, namespace or None))
            word = "namespace" if kind == "Namespace" else kind
            hint = self._hint(name, known, objects.count(kind))
            yield NamedInVain(kind, name, f"the {word} {name}{of} does not exist{hint}")

    def for_label(self, key: str, value: str) -> Iterator[NamedInVain]:
        """Look in the filter's column: no node has to be visited if one has the label."""
        table = self.core.cache.table
        values = values_at(table.label(key), table.rows())
        if not len(table) or value in values:
            return
        if key in (ARCH, OS):  # a value that only differs between kinds of nodes is no typo
            hint = ""
        elif values:
            hint = self._hint(value, values, 0).replace("did you mean ", f"did you mean {key}=")
        else:
            rows = table.rows()[:NAMES_COMPARED].tolist()
            hint = self._hint(key, {other for row in rows for other in table.node(row).metadata.labels}, len(rows))
        yield NamedInVain("label", f"{key}={value}", f"no node has the label {key}={value}{hint}")

    def _hint(self, name: str, known: Iterable[str], objects: int) -> str:
        """Suggest what may have been meant out of the names of so many objects; nothing if that would take too long."""
        try:
            self.work.spend(HINTS, objects)
            names = list(islice(known, NAMES_COMPARED))
            self.work.spend(HINTS, STEPS_TO_COMPARE * len(names))
        except OutOfBudgetError:
            return ""
        return nearest(name, names)


def in_sentences(missing: Iterable[str]) -> str:
    """Turn clauses about what is missing into sentences."""
    told = (each if each.endswith("?") else f"{each}." for each in missing)
    return " ".join(f"{each[:1].upper()}{each[1:]}" for each in told)
