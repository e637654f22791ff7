"""The scheduler's messages in our words: counts and nodes stay, what preemption says goes, nothing unknown is lost."""

import pytest

from berth_workbench.showing.reasons import in_our_words, nodes_in_our_words

LOST = (
    "0/39 nodes are available: 22 node(s) didn't match Pod's node affinity/selector, 8 node(s) didn't match "
    "PersistentVolume's node affinity, 9 node(s) had untolerated taint(s). no new claims to deallocate, "
    "preemption: 0/39 nodes are available: 39 Preemption is not helpful for scheduling."
)
LOST_TOLD = (
    "22 of 39 nodes do not have the labels that it asks for, 9 have a taint that it does not tolerate, "
    "8 are not where its volume is"
)
FULL = (
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are "
    "available: 2 No preemption victims found for incoming pod."
)
NO_GPUS = "ran and has no node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (LOST, LOST_TOLD),
        (FULL, "1 of 2 nodes lack cpu, 1 are cordoned"),
        (NO_GPUS, "ran and has no node: 3 of 3 nodes lack nvidia.com/gpu"),
        ("0/4 nodes are available: 4 rack, it is loud.", "4 of 4 nodes say: rack, it is loud"),
        ("waits for its scheduling gates: a", "waits for its scheduling gates: a"),
        ("0/0 nodes are available: .", "0/0 nodes are available: ."),
    ],
)
def test_messages(message, told):
    assert in_our_words(message) == told


def test_reasons_of_nodes():
    joined = "Insufficient cpu; Insufficient memory; node(s) had untolerated taint(s)"
    assert nodes_in_our_words(joined) == "Nodes lack cpu, lack memory or have a taint that it does not tolerate"
    assert nodes_in_our_words("fits now; was woken") == "fits now; was woken"
