"""Which volume a claim gets. Expectations follow FindMatchingVolume and checkVolumeSatisfyClaim upstream."""

from fractions import Fraction

import pytest

from berth_workloads.volume_claims import CandidateVolume, ClaimedStorage, mismatch, volume_for


def storage(size=1, class_name="", attributes_class="", mode="Filesystem", modes=("ReadWriteOnce",)):
    return ClaimedStorage(Fraction(size), class_name, attributes_class, mode, frozenset(modes))


def volume(name, meant=False, free=True, going=False, **of):
    return CandidateVolume(name, storage(**of), meant, free and not meant, going)


@pytest.mark.parametrize(
    ("of", "fault"),
    [
        ({}, ""),
        ({"size": 5, "modes": ("ReadWriteOnce", "ReadWriteMany")}, ""),
        ({"size": Fraction(1, 2)}, "requested PV is too small"),
        ({"class_name": "fast"}, "storageClassName does not match"),
        ({"attributes_class": "gold"}, "volumeAttributesClassName does not match"),
        ({"mode": "Block"}, "incompatible volumeMode"),
        ({"modes": ("ReadWriteMany",)}, "incompatible accessMode"),
    ],
)
def test_a_volume_satisfies_a_claim_or_it_is_said_why_not(of, fault):
    assert mismatch(storage(**of), storage()) == fault
    found = volume_for(storage(), [volume("v", **of)])
    assert (found is None) == bool(fault)


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([], None),
        ([volume("large", size=9), volume("small", size=2), volume("tiny", size=Fraction(1, 2))], "small"),
        ([volume("b"), volume("a")], "a"),
        ([volume("taken", free=False), volume("going", going=True)], None),
        ([volume("small"), volume("mine", meant=True, size=9)], "mine"),
        ([volume("small"), volume("mine", meant=True, size=9, class_name="other")], "mine"),
        ([volume("small"), volume("mine", meant=True, size=Fraction(1, 2))], "small"),
        ([volume("small"), volume("mine", meant=True, mode="Block")], "small"),
        ([volume("small"), volume("mine", meant=True, going=True)], "small"),
    ],
)
def test_one_that_is_meant_for_it_comes_before_the_smallest_free_one(volumes, expected):
    found = volume_for(storage(), volumes)
    assert (found and found.name) == expected


def test_a_claim_that_waits_for_its_consumer_takes_only_what_is_meant_for_it():
    assert volume_for(storage(), [volume("free")], only_meant=True) is None
    found = volume_for(storage(), [volume("free"), volume("mine", meant=True)], only_meant=True)
    assert found is not None and found.name == "mine"
