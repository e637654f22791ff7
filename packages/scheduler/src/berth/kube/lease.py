"""The record that leader election keeps in a coordination.k8s.io/v1 Lease, and how it is read and written."""

from datetime import UTC, datetime
from math import ceil
from typing import Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth.kube.event_series import micro_time

WISH = "berth.scheduling/wanted-by"
"""The annotation by which a scheduler asks the holder of a shard's lease to give it up."""


class LeaseError(ValueError):
    """The Lease object cannot be understood."""


class LeaderRecord(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of the lease: who leads, since when, and how often that has changed."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    @property
    def holder(self) -> str:
        """The identity of the leader; empty if there is none."""
        return self.holder_identity or ""


class ObservedLease(msgspec.Struct, frozen=True):
    """A lease as the server gave it: the record, and the whole object to be sent back changed."""

    record: LeaderRecord
    document: dict[str, Any]

    def body_with(self, record: LeaderRecord) -> bytes:
        """Return the object with another record and every other field kept.

        Its resourceVersion among them: the server refuses the update where somebody else wrote in between.
        """
        spec = {**(self.document.get("spec") or {}), **msgspec.to_builtins(record)}
        return msgspec.json.encode({**self._with_wish(""), "spec": spec})

    @property
    def wisher(self) -> str:
        """Who has asked the holder to give the lease up; empty if nobody has."""
        return str(self._annotations.get(WISH, ""))

    def body_wishing(self, identity: str) -> bytes:
        """Return the object with a wish; the record stays as it is, so that the lease lasts no longer for it."""
        return msgspec.json.encode(self._with_wish(identity))

    @property
    def _annotations(self) -> dict[str, Any]:
        found = (self.document.get("metadata") or {}).get("annotations")
        return found if isinstance(found, dict) else {}

    def _with_wish(self, identity: str) -> dict[str, Any]:
        """Return the object with this wish alone; the writer of the record has seen, and so ended, an older one."""
        if self._annotations.get(WISH, "") == identity:
            return self.document
        annotations = {name: value for name, value in self._annotations.items() if name != WISH}
        if identity:
            annotations[WISH] = identity
        return {**self.document, "metadata": {**(self.document.get("metadata") or {}), "annotations": annotations}}


def read_lease(body: bytes) -> ObservedLease:
    """Return a lease from the server's answer; raises `LeaseError`."""
    try:
        document = read_deep(msgspec.json.decode, body, type=dict[str, Any])
        record = msgspec.convert(document.get("spec") or {}, LeaderRecord)
    except UNREADABLE as error:
        raise LeaseError(f"the lease cannot be read: {problem_of(error)}; delete it if nobody else uses it") from error
    return ObservedLease(record, document)


def new_lease_body(namespace: str, name: str, record: LeaderRecord) -> bytes:
    """Return the body that creates a lease."""
    return msgspec.json.encode(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": msgspec.to_builtins(record),
        }
    )


def held_record(identity: str, lease_duration_s: float, now: datetime, before: LeaderRecord | None) -> LeaderRecord:
    """Return the record of `identity` leading now, after `before`; a change of leader counts as a transition."""
    stamp = micro_time(now)
    renews = before is not None and before.holder == identity
    transitions = 0 if before is None else before.lease_transitions or 0
    return LeaderRecord(
        holder_identity=identity,
        # Whole seconds, and rather too many: others must not take it before its holder stops.
        lease_duration_seconds=ceil(lease_duration_s),
        acquire_time=before.acquire_time if before is not None and renews else stamp,
        renew_time=stamp,
        lease_transitions=transitions if before is None or renews else transitions + 1,
    )


def released_record(now: datetime, before: LeaderRecord) -> LeaderRecord:
    """Return a record without a leader, which lasts for one second, so that others may take over almost at once."""
    stamp = micro_time(now.astimezone(UTC))
    return LeaderRecord(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=stamp,
        renew_time=stamp,
        lease_transitions=before.lease_transitions or 0,
    )
