"""The ordinals of a StatefulSet. Expectations follow pkg/controller/statefulset upstream and its documentation."""

import pytest

from berth_workloads.stateful_sets import claim_name, identity_labels, ordinal_of, rollout_order, wanted_ordinals


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [("db-0", 0), ("db-12", 12), ("db", None), ("db-", None), ("db-01", None), ("db-a", None), ("other-1", None)],
)
def test_a_pod_of_the_set_has_its_ordinal_in_its_name(name, ordinal):
    assert ordinal_of(name, "db") == ordinal


def test_ordinals_begin_with_the_first():
    assert list(wanted_ordinals(5, 3)) == [5, 6, 7]


@pytest.mark.parametrize(
    ("first", "partition", "order"), [(0, 0, [2, 1, 0]), (0, 1, [2, 1]), (0, 9, []), (5, 2, [7]), (5, 0, [7, 6, 5])]
)
def test_a_rolling_update_goes_from_the_highest_ordinal_down_to_the_partition(first, partition, order):
    assert rollout_order(first, 3, partition) == order


def test_pods_and_claims_have_lasting_names():
    assert claim_name("data", "db-3") == "data-db-3"
    assert dict(identity_labels("db-3", 3, "db-5f7")) == {
        "statefulset.kubernetes.io/pod-name": "db-3",
        "apps.kubernetes.io/pod-index": "3",
        "controller-revision-hash": "db-5f7",
    }
