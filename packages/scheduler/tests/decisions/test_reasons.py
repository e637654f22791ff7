"""The scheduler's messages in our words: counts and nodes stay, what preemption says goes, nothing unknown is lost."""

import pytest

from berth.decisions.reasons import cause_of, in_our_words, reason_in_words, what_is_missing
from berth.decisions.shortfall import Shortfall

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
        (FULL, "1 of 2 nodes lacks cpu, 1 is cordoned"),
        (NO_GPUS, "ran and has no node: 3 of 3 nodes lack nvidia.com/gpu"),
        ("0/4 nodes are available: 4 rack, it is loud.", "4 of 4 nodes say: rack, it is loud"),
        ("waits for its scheduling gates: a", "waits for its scheduling gates: a"),
        ("0/0 nodes are available: .", "0/0 nodes are available: ."),
    ],
)
def test_messages(message, told):
    assert in_our_words(message) == told


def lacks(resource, needs, free, of, node, nodes):
    return Shortfall(resource, needs, free, of, node, nodes)


MIXED = (
    "0/42 nodes are available: 12 node(s) had untolerated taint(s), 2 Insufficient cpu, 1 Insufficient memory, "
    "9 node(s) didn't match PersistentVolume's node affinity. preemption: 0/42 nodes are available: 42 not helpful."
)


@pytest.mark.parametrize(
    ("message", "shortfalls", "told"),
    [
        (
            NO_GPUS,
            [lacks("cpu", "2", "1", "8", "n1", 1), lacks("nvidia.com/gpu", "8", "6", "8", "gpu-3", 3)],
            "Needs 8 nvidia.com/gpu on one node, and gpu-3 has the most free, 6 of 8.",
        ),
        (NO_GPUS, [lacks("nvidia.com/gpu", "8", "0", "0", "n1", 3)],
         "Needs 8 nvidia.com/gpu, and no node has any that it could be on."),
        (MIXED, [lacks("cpu", "4", "2", "16", "db-1", 2)],
         "Needs 4 CPU on one node, and db-1 has the most free, 2 of 16; 9 nodes are not where its volume is."),
        (LOST, [], f"{LOST_TOLD}."),
        ("held back by SchedulingGates: waits", [], "Held back by SchedulingGates: waits."),
    ],
)  # fmt: skip
def test_what_is_missing_is_one_sentence(message, shortfalls, told):
    assert what_is_missing(message, shortfalls) == told


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (LOST, "their volumes are where there is no node for them"),
        (FULL, "the nodes that they may use have too little cpu left"),
        (MIXED, "their volumes are in a zone that is full"),
        ("0/3 nodes are available: 3 Insufficient memory.", "the nodes have too little memory left"),
        ("0/3 nodes are available: 3 node(s) had untolerated taint(s).",
         "all nodes have taints that they do not tolerate"),
        ("0/3 nodes are available: 3 own reason.", "the nodes say: own reason"),
        ("held back by SchedulingGates: waits", "held back by SchedulingGates: waits"),
    ],
)  # fmt: skip
def test_messages_with_other_numbers_come_down_to_one_cause(message, cause):
    """Numbers of nodes differ from pod to pod, and do not change the cause."""
    assert cause_of(message) == cause
    assert cause_of(message.replace("0/3", "0/30").replace(" 3 ", " 30 ")) == cause


def test_a_reason_of_one_node_and_of_several():
    assert (
        reason_in_words("Insufficient cpu", 1) == "lacks cpu" and reason_in_words("Insufficient cpu", 2) == "lack cpu"
    )
    assert reason_in_words("node(s) were unschedulable", 1) == "is cordoned"
