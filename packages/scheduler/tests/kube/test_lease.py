"""The record in a lease: what a renewal, a take-over and a release write."""

import json

import pytest

from berth.kube.lease import LeaderRecord, LeaseError, held_record, new_lease_body, read_lease, released_record
from packages.scheduler.tests.kube.fakes import START

NOW = "2026-01-02T03:04:05.678901Z"
BEFORE = LeaderRecord("one", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:10.000000Z", 4)


@pytest.mark.parametrize(
    ("identity", "before", "expected"),
    [
        ("one", None, LeaderRecord("one", 20, NOW, NOW, 0)),
        ("one", BEFORE, LeaderRecord("one", 20, BEFORE.acquire_time, NOW, 4)),
        ("two", BEFORE, LeaderRecord("two", 20, NOW, NOW, 5)),
        ("two", LeaderRecord(), LeaderRecord("two", 20, NOW, NOW, 1)),
    ],
    ids=["new", "renewed", "taken over", "empty"],
)
def test_held(identity, before, expected):
    assert held_record(identity, 20.0, START, before) == expected


def test_released():
    assert released_record(START, BEFORE) == LeaderRecord("", 1, NOW, NOW, 4)


def test_a_new_lease():
    assert json.loads(new_lease_body("ns", "name", BEFORE)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "name", "namespace": "ns"},
        "spec": {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:10.000000Z",
            "leaseTransitions": 4,
        },
    }


def test_what_is_not_ours_is_sent_back_as_it_came():
    body = (
        b'{"metadata":{"resourceVersion":"7","labels":{"a":"b"}},"spec":{"preferredHolder":"x","leaseTransitions":1}}'
    )
    sent = json.loads(read_lease(body).body_with(BEFORE))
    assert sent["metadata"] == {"resourceVersion": "7", "labels": {"a": "b"}}
    assert sent["spec"]["preferredHolder"] == "x" and sent["spec"]["leaseTransitions"] == 4


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec":3}', b'{"spec":{"leaseDurationSeconds":"15s"}}'])
def test_unreadable(body):
    with pytest.raises(LeaseError, match="the lease cannot be read"):
        read_lease(body)
