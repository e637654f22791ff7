"""Consumable capacity: what a request takes under a device's request policy (KEP-5075, v1.36)."""

import pytest

from berth.api.codec import decode
from berth.plugins.dra.capacity import consumed_by, fits
from berth.plugins.dra.results import quantity_of
from packages.scheduler.tests.plugins.dra.support import device

GI = 2**30 * 10**9
RANGE = {"default": "10Gi", "validRange": {"min": "5Gi", "max": "30Gi", "step": "5Gi"}}
VALUES = {"default": "1Gi", "validValues": ["1Gi", "4Gi", "16Gi"]}


def capacities(policy, value="40Gi"):
    spec = device("d", capacity={"memory": {"value": value, **({"requestPolicy": policy} if policy else {})}})
    document = {"metadata": {"name": "s"}, "spec": {"driver": "x", "devices": [spec]}}
    return decode("ResourceSlice", document).spec.devices[0].capacity


def asking(**requests):
    document = {"name": "r", "exactly": {"capacity": {"requests": requests}}}
    spec = {"devices": {"requests": [document]}}
    return decode("ResourceClaim", {"spec": spec}).spec.devices.requests[0].exactly.capacity


@pytest.mark.parametrize(
    ("policy", "wanted", "taken"),
    [
        (None, None, 40 * GI),
        (None, "3Gi", 3 * GI),
        (RANGE, None, 10 * GI),
        (RANGE, "1Gi", 5 * GI),
        (RANGE, "5Gi", 5 * GI),
        (RANGE, "11Gi", 15 * GI),
        (RANGE, "15Gi", 15 * GI),
        (VALUES, None, 1 * GI),
        (VALUES, "2Gi", 4 * GI),
        (VALUES, "16Gi", 16 * GI),
        (VALUES, "17Gi", 17 * GI),
        ({"validRange": {"min": "5Gi"}}, "7Gi", 7 * GI),
    ],
)
def test_what_a_request_takes(policy, wanted, taken):
    assert consumed_by(asking(memory=wanted) if wanted else None, capacities(policy)) == {"memory": taken}


@pytest.mark.parametrize(
    ("policy", "wanted", "allocated", "allocating", "expected"),
    [
        (RANGE, None, 30, 0, True),
        (RANGE, None, 31, 0, False),
        (RANGE, None, 10, 20, True),
        (RANGE, None, 20, 20, False),
        (RANGE, "31Gi", 0, 0, False),  # above the range's maximum once rounded
        (VALUES, "17Gi", 0, 0, False),  # none of the valid values
        (None, "41Gi", 0, 0, False),
    ],
)
def test_whether_it_is_to_be_had(policy, wanted, allocated, allocating, expected):
    request = asking(memory=wanted) if wanted else None
    left = {"memory": allocated * GI}, {"memory": allocating * GI}
    assert fits(request, capacities(policy), *left) is expected


def test_a_capacity_that_the_device_does_not_have():
    assert not fits(asking(lanes="1"), capacities(None), {}, {})


@pytest.mark.parametrize(
    ("nano", "text"),
    [(10 * GI, "10Gi"), (1024 * 10**9, "1Ki"), (1000 * 10**9, "1000"), (0, "0"), (500_000_000, "500000000n")],
)
def test_how_amounts_are_written(nano, text):
    assert quantity_of(nano) == text
