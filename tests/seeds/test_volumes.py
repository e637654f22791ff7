"""Balanced allocation with attached volumes (noderesources/balanced_allocation.go, release-1.20)."""

import pytest

from berth.config.feature_gates import feature_gates
from berth.core.builders import make_node, make_pod
from berth.plugins.legacy.balanced_allocation import LegacyBalancedAllocation
from packages.scheduler.tests.plugins.support import handle_of, raw_scores


@pytest.mark.parametrize(("gate", "score"), [(True, 95), (False, 75)])
def test_attached_volumes_are_the_third_fraction_where_the_gate_is_on(gate, score):
    """Fractions 0.75, 0.5 and 1 of 4 disks: a variance of 0.0417; without the gate a difference of 0.25."""
    node = make_node("n1").capacity({"attachable-volumes-gce-pd": "4"}, cpu="4000m", memory="4000")
    handle = handle_of(node.build())
    handle.features = feature_gates({"BalanceAttachedNodeVolumes": gate}, "v1.20")
    pod = make_pod().request(cpu="3000m", memory="2000").volume("v", gcePersistentDisk={"pdName": "d"})
    assert raw_scores(LegacyBalancedAllocation(None, handle), pod.info(), handle) == {"n1": score}
