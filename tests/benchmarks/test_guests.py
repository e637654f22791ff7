"""What measures guests: that each can be measured, in both forms, and that all pods have got nodes then."""

import pytest

from benchmarks import guests
from berth.framework.registry import Registry

SMALL = {"nodes": 12, "pods": 5, "warm_up": 5}


@pytest.mark.parametrize("guest", guests.SCENARIOS)
def test_a_guest_is_measured_in_both_forms(guest):
    name = guests.name_in(guest)
    found = guests.guests().factory(name)
    for form in (found, guests.in_plain_form(found)):
        assert guests.ms_per_pod(guest, found=Registry({name: form}, "a test"), **SMALL) > 0


def test_a_plain_form_has_no_columns_and_makes_no_promises():
    found = guests.guests().factory("NetworkOverhead")
    assert {"filter_columns", "promises"} <= vars(found).keys()
    assert not vars(guests.in_plain_form(found)).keys() & {"filter_columns", "score_columns", "signature", "promises"}


def test_pods_without_a_node_are_no_cost(monkeypatch):
    monkeypatch.setattr(guests, "node", lambda number: NODE | {"metadata": {"name": f"n{number}", "uid": f"{number}"}})
    with pytest.raises(AssertionError, match="QOSSort: 10 pods have no node"):
        guests.ms_per_pod("QOSSort", found=None, **SMALL)


NODE = {"kind": "Node", "status": {"allocatable": {"cpu": "1m", "pods": "10"}}}
