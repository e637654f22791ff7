"""Which devices count as taken, from Reserve until the watch has brought what was written."""

import random

import msgspec
import pytest

from berth.plugins.dra.devices import DeviceId
from berth.plugins.dra.ledger import Ledger
from berth.state.objects import ObjectStore
from packages.scheduler.tests.plugins.dra.support import DRIVER, allocation, claim

GI = 2**30 * 10**9


def device_id(name):
    return DeviceId(DRIVER, "a", name)


def taken(ledger):
    return sorted(device.device for device in ledger.allocated().devices)


def ledger_of(*claims, consumable=True):
    objects = ObjectStore()
    for one in claims:
        objects.put("ResourceClaim", one)
    return objects, Ledger(objects, consumable)


def held(name, *devices, version="1", **fields):
    return claim(name, status={"allocation": allocation(*devices, **fields)}, resourceVersion=version)


def test_claims_are_counted_as_they_come_change_and_go():
    objects, ledger = ledger_of(held("c1", "d0", "d1"), claim("c2"))
    assert taken(ledger) == ["d0", "d1"]
    objects.put("ResourceClaim", held("c2", "d2"))
    assert taken(ledger) == ["d0", "d1", "d2"]
    objects.put("ResourceClaim", claim("c1"))
    objects.remove("ResourceClaim", claim("c2"))
    assert taken(ledger) == []


def test_a_device_that_two_claims_hold_is_free_after_both():
    objects, ledger = ledger_of(held("c1", "d0"), held("c2", "d0"))
    assert taken(ledger) == ["d0"]
    objects.remove("ResourceClaim", claim("c1"))
    assert taken(ledger) == ["d0"]
    objects.remove("ResourceClaim", claim("c2"))
    assert taken(ledger) == []


def test_who_only_looks_takes_nothing():
    _, ledger = ledger_of(held("c1", "d0", adminAccess=True))
    assert taken(ledger) == []


def test_shared_devices_count_by_capacity():
    half = {"shareID": "x", "consumedCapacity": {"memory": "5Gi"}}
    objects, ledger = ledger_of(held("c1", "d0", **half), held("c2", "d0", **half))
    assert taken(ledger) == []
    assert ledger.allocated().capacity == {device_id("d0"): {"memory": 10 * GI}}
    assert ledger.allocated().is_allocated(device_id("d0"))
    objects.remove("ResourceClaim", claim("c1"))
    assert ledger.allocated().capacity == {device_id("d0"): {"memory": 5 * GI}}
    objects.remove("ResourceClaim", claim("c2"))
    assert not ledger.allocated().is_allocated(device_id("d0"))
    assert not ledger.allocated().capacity
    _, whole = ledger_of(held("c1", "d0", **half), consumable=False)
    assert taken(whole) == ["d0"]


def test_a_reservation_counts_until_it_is_released():
    _, ledger = ledger_of(claim("c1"))
    ledger.reserve(held("c1", "d0"))
    assert taken(ledger) == ["d0"]
    assert ledger.is_pending("uid-c1")
    assert ledger.release("uid-c1")
    assert not ledger.release("uid-c1")
    assert taken(ledger) == []


def test_what_was_written_counts_until_the_watch_has_brought_it():
    before = claim("c1", resourceVersion="1")
    objects, ledger = ledger_of(before)
    ledger.reserve(held("c1", "d0"))
    written = held("c1", "d0", version="3")
    ledger.written("uid-c1", written)
    assert not ledger.is_pending("uid-c1")
    assert ledger.get("default", "c1") is written
    # The write of the finalizer comes before that of the status.
    objects.put("ResourceClaim", claim("c1", resourceVersion="2", finalizers=["f"]))
    assert taken(ledger) == ["d0"]
    assert ledger.get("default", "c1") is written
    come = msgspec.structs.replace(written)
    objects.put("ResourceClaim", come)
    assert taken(ledger) == ["d0"]
    assert ledger.get("default", "c1") is come
    objects.put("ResourceClaim", claim("c1", resourceVersion="4"))
    assert taken(ledger) == []
    assert len(ledger) == 0


def test_a_claim_that_is_deleted_before_its_write_comes_back_is_free():
    objects, ledger = ledger_of(claim("c1", resourceVersion="1"))
    assert taken(ledger) == []
    ledger.written("uid-c1", held("c1", "d0", version="3"))
    assert taken(ledger) == ["d0"]
    objects.remove("ResourceClaim", claim("c1"))
    assert taken(ledger) == []
    assert ledger.get("default", "c1") is None


def test_a_claim_that_was_just_made_counts_before_it_is_seen():
    objects, ledger = ledger_of()
    ledger.written("temporary", held("made", "d0", version="5"))
    assert taken(ledger) == ["d0"]
    objects.put("ResourceClaim", held("made", "d0", version="5"))
    assert taken(ledger) == ["d0"]
    ledger.forget("uid-made")
    objects.remove("ResourceClaim", claim("made"))
    assert taken(ledger) == []


def test_a_write_whose_event_comes_before_its_answer_does_not_hide_what_came_after():
    objects, ledger = ledger_of(claim("c1", resourceVersion="1"))
    assert taken(ledger) == []
    objects.put("ResourceClaim", held("c1", "d0", version="3"))
    objects.put("ResourceClaim", claim("c1", resourceVersion="4"))
    assert taken(ledger) == []
    ledger.written("uid-c1", held("c1", "d0", version="3"))
    assert taken(ledger) == []


@pytest.mark.parametrize("seed", range(20))
def test_claims_followed_one_by_one_are_those_counted_all_at_once(seed):
    rng = random.Random(seed)
    objects, ledger = ledger_of()
    for version in range(1, 200):
        name, what = f"c{rng.randrange(5)}", rng.random()
        if what < 0.5:
            devices = rng.sample(["d0", "d1", "d2", "d3"], rng.randint(0, 2))
            objects.put("ResourceClaim", held(name, *devices, version=str(version), uid=f"{name}-{rng.randrange(2)}"))
        elif what < 0.8:
            objects.remove("ResourceClaim", claim(name))
        if rng.random() < 0.5:
            _, afresh = ledger_of(*objects.list("ResourceClaim"))
            assert ledger.allocated().devices == afresh.allocated().devices
