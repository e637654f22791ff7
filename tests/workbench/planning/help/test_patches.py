"""Patches say exactly what differs, and mean the same to an API server."""

import copy

import pytest

from berth_cluster.apimachinery.patches import JSON_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from berth_workbench.planning.help.patches import patch_of

MEDIA_TYPES = {"strategic": STRATEGIC_MERGE_PATCH, "json": JSON_PATCH}


def constraint(key, skew=1):
    return {"topologyKey": key, "maxSkew": skew}


CASES = {
    "a field": ({"spec": {"a": 1}}, {"spec": {"a": 2}}, {"spec": {"a": 2}}),
    "a field goes": ({"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2}}, {"spec": {"a": None}}),
    "a label comes": ({"metadata": {}}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}),
    "taints are one value": (
        {"spec": {"taints": [{"key": "a"}, {"key": "b"}]}},
        {"spec": {"taints": [{"key": "b"}]}},
        {"spec": {"taints": [{"key": "b"}]}},
    ),
    "a container keeps the rest": (
        {"spec": {"containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 1, "hostPort": 1}]}]}},
        {"spec": {"containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 1}]}]}},
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": None}]}]}},
    ),
    "a volume goes": (
        {"spec": {"volumes": [{"name": "a"}, {"name": "b"}]}},
        {"spec": {"volumes": [{"name": "b"}]}},
        {"spec": {"volumes": [{"name": "a", "$patch": "delete"}]}},
    ),
    "two constraints of one key": (
        {"spec": {"topologySpreadConstraints": [constraint("z"), constraint("z")]}},
        {"spec": {"topologySpreadConstraints": [constraint("z"), constraint("z", 2)]}},
        [{"op": "replace", "path": "/spec/topologySpreadConstraints/1/maxSkew", "value": 2}],
    ),
    "two ports of one number": (
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 1}]}]}},
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 1}]}]}},
        [{"op": "remove", "path": "/spec/containers/0/ports/0/hostPort"}],
    ),
    "one of two constraints goes, and a label with a slash": (
        {"a/b": 1, "spec": {"topologySpreadConstraints": [constraint("z"), constraint("z", 2), constraint("h")]}},
        {"a/b": 2, "spec": {"topologySpreadConstraints": [constraint("z"), constraint("h")]}},
        [
            {"op": "replace", "path": "/a~1b", "value": 2},
            {"op": "remove", "path": "/spec/topologySpreadConstraints/1"},
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_patch_turns_the_one_into_the_other(case):
    before, after, wanted = copy.deepcopy(CASES[case])
    patch_type, patch = patch_of(before, after)
    assert patch == wanted
    assert before == CASES[case][0], "the object itself was changed"
    kind = {"apiVersion": "v1", "kind": "Pod"}
    assert apply_patch(kind | before, patch, MEDIA_TYPES[patch_type]) == kind | after
