"""DefaultPreemptionArgs: bounds, and how many candidates they mean."""

import pytest

from berth.config.errors import ConfigError
from berth.config.plugin_args import decode_plugin_args
from berth.plugins.preemption import DefaultPreemptionArgs


@pytest.mark.parametrize(
    ("args", "errors"),
    [
        ({}, []),
        ({"minCandidateNodesPercentage": 0}, []),
        ({"minCandidateNodesAbsolute": 0}, []),
        ({"minCandidateNodesPercentage": 101}, ["not in valid range [0, 100]"]),
        ({"minCandidateNodesPercentage": -1}, ["not in valid range [0, 100]"]),
        ({"minCandidateNodesAbsolute": -1}, ["not in valid range [0, inf)"]),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
    ],
)
def test_args(args, errors):
    found = []
    try:
        decoded = decode_plugin_args("DefaultPreemption", args, DefaultPreemptionArgs, "args")
        assert decoded.min_candidate_nodes_percentage == args.get("minCandidateNodesPercentage", 10)
        assert decoded.min_candidate_nodes_absolute == args.get("minCandidateNodesAbsolute", 100)
    except ConfigError as raised:
        found = list(raised.errors)
    assert [message.split(": ", 2)[2].partition(": ")[2] for message in found] == errors


@pytest.mark.parametrize(
    ("percentage", "absolute", "node_count", "wanted"),
    [
        (10, 100, 50, 50),
        (10, 100, 500, 100),
        (10, 100, 5000, 500),
        (10, 100, 1009, 100),
        (0, 1, 5000, 1),
        (50, 0, 9, 4),
    ],
)
def test_how_many_candidates_are_enough(percentage, absolute, node_count, wanted):
    assert DefaultPreemptionArgs(percentage, absolute).wanted_candidates(node_count) == wanted
