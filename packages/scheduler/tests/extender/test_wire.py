"""The documents of the protocol; names are those of staging/src/k8s.io/kube-scheduler/extender/v1/types.go."""

import msgspec
import pytest

from berth.extender import wire

POD = msgspec.Raw(b'{"metadata":{"name":"p","x":1}}')


def test_filter_and_prioritize_are_asked_in_go_names_with_nulls():
    by_name = msgspec.json.decode(wire.encode(wire.ExtenderArgs(POD, node_names=("a",))))
    assert by_name == {"Pod": {"metadata": {"name": "p", "x": 1}}, "Nodes": None, "NodeNames": ["a"]}
    whole = msgspec.json.decode(wire.encode(wire.ExtenderArgs(POD, wire.NodeList(items=(POD,)))))
    assert whole["Nodes"] == {"metadata": {}, "items": [{"metadata": {"name": "p", "x": 1}}]}


def test_preempt_and_bind_are_asked_in_go_names():
    victims = wire.MetaVictims((wire.MetaPod("u1"),), 2)
    asked = wire.ExtenderPreemptionArgs(POD, node_name_to_meta_victims={"a": victims})
    assert msgspec.json.decode(wire.encode(asked)) == {
        "Pod": {"metadata": {"name": "p", "x": 1}},
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}},
    }
    assert msgspec.json.decode(wire.encode(wire.ExtenderBindingArgs("p", "default", "u1", "a"))) == {
        "PodName": "p", "PodNamespace": "default", "PodUID": "u1", "Node": "a",
    }  # fmt: skip
    assert msgspec.json.decode(wire.encode([wire.HostPriority("a", 7)])) == [{"Host": "a", "Score": 7}]


# encoding/json matches names in any case, ignores unknown fields, and leaves fields alone that are null.


@pytest.mark.parametrize(
    "names",
    [
        ("nodeNames", "failedNodes", "error"),
        ("NodeNames", "FailedNodes", "Error"),
        ("nodenames", "failednodes", "ERROR"),
    ],
)
def test_names_are_read_in_any_case(names):
    nodes, failed, error = names
    body = msgspec.json.encode({nodes: ["a"], failed: {"NodeB": "no"}, error: "", "nodes": None, "other": [1]})
    found = wire.read(body, wire.ExtenderFilterResult)
    assert found == wire.ExtenderFilterResult(None, ("a",), {"NodeB": "no"})


def test_lists_and_maps_are_read_through():
    assert wire.read(b'[{"host":"a","score":3},{"Host":"b"}]', list[wire.HostPriority]) == [
        wire.HostPriority("a", 3),
        wire.HostPriority("b", 0),
    ]
    body = b'{"nodeNameToMetaVictims":{"A":{"pods":[{"uid":"u1"}],"numPDBViolations":1},"B":null}}'
    victims = {"A": wire.MetaVictims((wire.MetaPod("u1"),), 1)}
    assert wire.read(body, wire.ExtenderPreemptionResult) == wire.ExtenderPreemptionResult(victims)


def test_null_is_an_empty_document():
    assert wire.read(b"null", list[wire.HostPriority]) == []
    assert wire.read(b"null", wire.ExtenderBindingResult) == wire.ExtenderBindingResult()


def test_objects_come_through_whole():
    found = wire.read(b'{"nodes":{"items":[{"metadata":{"name":"a"},"Spec":{"X":null}}]}}', wire.ExtenderFilterResult)
    (node,) = found.nodes.items
    assert wire.object_name(node) == "a"
    assert msgspec.json.decode(node) == {"metadata": {"name": "a"}, "Spec": {"X": None}}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"NodeNames": "a"}', b'{"Error": 5}', b'{"Error": "\xff"}',
                                  b'{"NodeNames":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])  # fmt: skip
def test_what_cannot_be_read_is_shown(body):
    with pytest.raises(wire.WireError, match="cannot be read"):
        wire.read(body, wire.ExtenderFilterResult)


@pytest.mark.parametrize("node", [b"5", b'{"metadata":{"name":"\xff"}}', b"[" * 100_000 + b"]" * 100_000])
def test_an_object_without_a_readable_name(node):
    with pytest.raises(wire.WireError, match="no readable metadata"):
        wire.object_name(msgspec.Raw(node))
