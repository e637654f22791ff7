"""Pruning, defaults and unknown fields; kubernetes.io "Field pruning" and "Defaulting" have the rules."""

from copy import deepcopy

from berth_cluster.custom.values import prune, set_defaults, unknown_fields

SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 3},
        "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "x"}}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
        "maybe": {"type": "string", "nullable": True},
    },
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}


def pruned(spec, schema=SCHEMA, **fields):
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": deepcopy(spec), **fields}
    prune(obj, schema)
    return obj


def test_what_the_schema_does_not_have_is_pruned():
    spec = {
        "x": 1,
        "parts": [{"n": 1, "x": 2}],
        "free": {"x": {"y": 1}, "known": {"a": "b", "x": 3}},
        "map": {"q": {"k": "v", "x": 4}},
    }
    expected = {"parts": [{"n": 1}], "free": {"x": {"y": 1}, "known": {"a": "b"}}, "map": {"q": {"k": "v"}}}
    obj = pruned(spec, more=5)
    assert obj == {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": expected}


def test_unknown_fields_have_the_paths_of_messages():
    obj = {"apiVersion": "v", "kind": "K", "metadata": {}, "zap": 1,
           "spec": {"foo": 1, "nested": {"zip": 1}, "parts": [{"zz": 1}], "free": {"known": {"b": 1}}}}  # fmt: skip
    assert unknown_fields(obj, SCHEMA) == [
        "spec.foo", "spec.free.known.b", "spec.nested.zip", "spec.parts[0].zz", "zap",
    ]  # fmt: skip


def test_an_object_type_without_properties_is_empty_unless_it_preserves_unknown_fields():
    assert "spec" not in pruned({"a": 1}, {"type": "object"})
    preserving = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert pruned({"a": {"b": 1}}, preserving)["spec"] == {"a": {"b": 1}}


def test_an_embedded_object_keeps_what_every_object_has():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}, "y": 2}
    assert pruned({"pod": pod})["spec"]["pod"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {},
    }


def test_nulls_stay_only_where_they_are_allowed():
    assert pruned({"size": None, "maybe": None})["spec"] == {"maybe": None}


def test_whole_numbers_are_integers():
    assert repr(pruned({"size": 2.0})["spec"]["size"]) == "2"


def test_defaults_are_set_at_every_depth_and_never_shared():
    obj = pruned({"parts": [{}, {"n": 1}], "size": None})
    set_defaults(obj, SCHEMA)
    assert obj["spec"] == {"parts": [{"n": 7}, {"n": 1}], "size": 3, "nested": {"deep": "x"}}
    obj["spec"]["nested"]["deep"] = "changed"
    assert SPEC["properties"]["nested"]["default"] == {}


def test_unknown_metadata_of_an_embedded_object_is_told():
    """Upstream's spec "should detect unknown metadata fields in both the root and embedded object of a CR"."""
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "nom": "q"}, "spec": {}}
    assert unknown_fields({"spec": {"pod": embedded}}, SCHEMA) == ["spec.pod.metadata.nom"]
