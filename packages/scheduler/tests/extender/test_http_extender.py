"""Whom an extender looks after, in which order they are asked, and what is sent: pkg/scheduler/extender.go."""

import msgspec
import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.extender.http_extender import build_extenders, kinds_sent_whole
from berth.framework.extenders import ExtenderError, NodeVictims
from packages.scheduler.tests.extender.support import configured, listed


def extender(*verbs, **fields):
    return build_extenders(load_config(configured(listed("http://e/", *verbs, **fields)), "a test").extenders)[0]


def container(kind="requests", resource="example.com/gpu"):
    return {"name": "c", "resources": {kind: {resource: "1"}}}


MANAGED = {"managedResources": [{"name": "example.com/gpu"}]}


# TestIsInterested


@pytest.mark.parametrize(
    ("pod", "fields", "is_interested"),
    [
        (make_pod(), {}, True),
        (make_pod(), MANAGED, False),
        (make_pod().set_spec(containers=[container()]), MANAGED, True),
        (make_pod().set_spec(containers=[container("limits")]), MANAGED, True),
        (make_pod().set_spec(containers=[container(resource="example.com/fpga")]), MANAGED, False),
        (make_pod().set_spec(initContainers=[container()]), MANAGED, True),
    ],
    ids=["no managed resources", "nothing asked for", "request", "limit", "another resource", "init container"],
)
def test_whom_it_looks_after(pod, fields, is_interested):
    assert extender("filter", **fields).is_interested(pod.info()) is is_interested


def test_it_does_what_it_has_a_verb_for():
    found = extender("filter", "bind")
    assert [verb for verb in ("filter", "prioritize", "preempt", "bind") if found.does(verb)] == ["filter", "bind"]


# pkg/scheduler/scheduler.go, buildExtenders: ignorable extenders come last


def test_ignorable_extenders_come_last():
    entries = [listed(f"http://{name}/", "filter", ignorable=name in "ac") for name in "abcd"]
    found = build_extenders(load_config(configured(*entries), "a test").extenders)
    assert [one.name for one in found] == ["http://b/", "http://d/", "http://a/", "http://c/"]
    calls = [one.filter_call(make_pod().info(), []) for one in found]
    assert [call.extender for call in calls] == [1, 3, 0, 2]  # where the configuration lists them


def test_nodes_go_by_name_or_whole():
    pod, node = make_pod("p").info(), make_node("a").label("zone", "z").build()
    by_name = msgspec.json.decode(extender("filter", nodeCacheCapable=True).filter_call(pod, [node]).body)
    assert (by_name["NodeNames"], by_name["Nodes"]) == (["a"], None)
    whole = msgspec.json.decode(extender("prioritize").prioritize_call(pod, [node]).body)
    assert whole["NodeNames"] is None
    assert whole["Nodes"]["items"][0]["metadata"]["labels"]["zone"] == "z"
    assert whole["Pod"]["metadata"]["name"] == "p"


def test_victims_go_by_uid_or_whole():
    pod, victims = make_pod("p").info(), {"a": NodeVictims((make_pod("v").uid("u1").info(),), 1)}
    by_uid = msgspec.json.decode(extender("preempt", nodeCacheCapable=True).preempt_call(pod, victims).body)
    assert by_uid["NodeNameToVictims"] is None
    assert by_uid["NodeNameToMetaVictims"] == {"a": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}}
    whole = msgspec.json.decode(extender("preempt").preempt_call(pod, victims).body)
    assert whole["NodeNameToMetaVictims"] is None
    assert whole["NodeNameToVictims"]["a"]["Pods"][0]["metadata"]["name"] == "v"


def test_objects_are_sent_as_they_are_kept():
    config = load_config(configured(listed("http://e/", "filter")), "a test")
    (found,) = build_extenders(config.extenders, whole=lambda obj: b'{"whole":"%s"}' % obj.metadata.name.encode())
    document = msgspec.json.decode(found.filter_call(make_pod("p").info(), [make_node("a").build()]).body)
    assert document["Pod"] == {"whole": "p"}
    assert document["Nodes"]["items"] == [{"whole": "a"}]


# HTTPExtender.Filter: a nodeCacheCapable extender's names count first, then nodes; with neither nothing is left


@pytest.mark.parametrize(
    ("answer", "by_name", "whole"),
    [
        ({"NodeNames": ["a"]}, ("a",), ()),
        ({"Nodes": {"items": [{"metadata": {"name": "b"}}]}}, ("b",), ("b",)),
        ({"NodeNames": ["a"], "Nodes": {"items": [{"metadata": {"name": "b"}}]}}, ("a",), ("b",)),
        ({}, (), ()),
    ],
    ids=["names", "nodes", "both", "neither"],
)
def test_which_nodes_are_left(answer, by_name, whole):
    body, given = msgspec.json.encode(answer), [make_node(name).build() for name in "ab"]
    assert extender("filter", nodeCacheCapable=True).read_filter(body, given).kept == by_name
    assert extender("filter").read_filter(body, given).kept == whole


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"Error": "no licence left"}', "no licence left"),
        (b'{"NodeNames": ["x"]}', 'extender "http://e/" claims a filtered node "x" which is not found in the input'),
        (b"<html>", 'extender "http://e/": the document cannot be read'),
    ],
)
def test_answers_that_cannot_be_used(answer, message):
    with pytest.raises(ExtenderError, match=message):
        extender("filter", nodeCacheCapable=True).read_filter(answer, [make_node("a").build()])


def test_a_refused_binding():
    with pytest.raises(ExtenderError, match="taken"):
        extender("bind").read_bind(b'{"error": "taken"}')
    assert extender("bind").read_bind(b"{}") is None


@pytest.mark.parametrize(
    ("entries", "kinds"),
    [
        ([], set()),
        ([listed("http://e/", "bind")], set()),
        ([listed("http://e/", "filter", nodeCacheCapable=True)], {"Pod"}),
        ([listed("http://e/", "preempt")], {"Pod", "Node"}),
    ],
)
def test_what_has_to_be_kept_whole(entries, kinds):
    assert kinds_sent_whole(load_config(configured(*entries), "a test").extenders) == kinds
