"""Takes volumes for a pod before the API server knows, and gives them back.

Reserve turns what a pod would get into assumed objects: volumes that are promised to their claims, claims that ask to
be provisioned for a node. Every later decision takes these into account; `pre_bind` writes the same to the API server.
"""

from typing import NamedTuple

from msgspec.structs import replace

from berth.api.meta import ObjectReference
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.framework.readers import ObjectReader
from berth.plugins.volumes.binder import PodVolumes
from berth.plugins.volumes.claims import (
    BOUND_BY_CONTROLLER,
    CLAIM,
    SELECTED_NODE,
    VOLUME,
    is_bound_to,
)
from berth.state.objects import key_of


class Promise(NamedTuple):
    """A volume for a claim: the volume as stored, and as it will be."""

    claim: PersistentVolumeClaim
    before: PersistentVolume
    after: PersistentVolume

    @property
    def is_news(self) -> bool:
        """Say whether this pod has to write it: it is not so already, and no other pod is writing it."""
        return self.after is not self.before


class Order(NamedTuple):
    """A claim as stored, and as it will be once it says for which node it is to be provisioned."""

    before: PersistentVolumeClaim
    after: PersistentVolumeClaim

    @property
    def is_news(self) -> bool:
        """Say whether this pod has to write it: it is not so already, and no other pod is writing it."""
        return self.after is not self.before


class AssumedVolumes(NamedTuple):
    """What Reserve took for a pod."""

    promises: tuple[Promise, ...] = ()
    orders: tuple[Order, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Say whether there is nothing to write."""
        return not self.promises and not self.orders


def take(objects: ObjectReader, volumes: PodVolumes, node_name: str) -> AssumedVolumes:
    """Assume that the claims get these volumes, and return what there is to write."""
    promises = tuple(Promise(claim, volume, promised(volume, claim)) for claim, volume in volumes.bindings)
    orders = tuple(Order(claim, ordered(claim, node_name)) for claim, _ in volumes.provisions)
    for promise in promises:
        _assume(objects, VOLUME, promise.before, promise.after)
    for order in orders:
        _assume(objects, CLAIM, order.before, order.after)
    return AssumedVolumes(promises, orders)


def give_back(objects: ObjectReader, taken: AssumedVolumes) -> None:
    """Drop this pod's assumptions, so that the stored objects count again; those of later pods stay."""
    for promise in taken.promises:
        if promise.is_news:
            _restore(objects, VOLUME, promise.after)
    for order in taken.orders:
        if order.is_news:
            _restore(objects, CLAIM, order.after)


def promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume as it is once promised to a claim; the same object where it already is."""
    meta, ref = claim.metadata, volume.spec.claim_ref
    spec, annotations = volume.spec, volume.metadata.annotations
    if ref is None or (ref.name, ref.namespace, ref.uid) != (meta.name, meta.namespace, meta.uid):
        spec = replace(spec, claim_ref=ObjectReference("v1", CLAIM, meta.namespace, meta.name, meta.uid))
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
    if spec is volume.spec and annotations is volume.metadata.annotations:
        return volume
    return replace(volume, spec=spec, metadata=replace(volume.metadata, annotations=annotations))


def ordered(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """Return a claim as it is once it asks to be provisioned for a node; the same object where it already does."""
    if claim.metadata.annotations.get(SELECTED_NODE) == node_name:
        return claim
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _assume(objects: ObjectReader, kind: str, before: object, after: object) -> None:
    if after is not before:
        key = key_of(before)
        objects.assumed.put(kind, key, objects.get(kind, *_place(key)), after)


def _restore(objects: ObjectReader, kind: str, after: object) -> None:
    key = key_of(after)
    if objects.latest(kind, *_place(key)) is after:
        objects.assumed.drop(kind, key)


def _place(key: str) -> tuple[str, str]:
    namespace, _, name = key.rpartition("/")
    return name, namespace
