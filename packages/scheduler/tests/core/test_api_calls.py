"""What plugins ask of the API server while a pod is on its way, answered by a cluster in memory.

Expectations: the API's own verbs (a merge patch is RFC 7386), and docs/plugins.md ("Calling the API server").
"""

import pytest

import berth
from berth.core.virtual_cluster import VirtualCluster
from berth.framework.effects import ApiCall
from berth.plugin import Answer, CustomResource, Steps, error
from berth.testing import make_node, make_object, make_pod

QUOTAS = CustomResource("example.com", "v1", "teamquotas", "TeamQuota")
RACKS = CustomResource("example.com", "v1", "racks", "Rack", namespaced=False)


def asking(*calls):
    """A plugin that makes these calls in PreBind, and keeps the answers."""

    class Asks:
        name = "Asks"
        answers = []

        def __init__(self, args, handle):
            self._quotas = handle.follow(QUOTAS)
            handle.follow(RACKS)

        def pre_bind(self, state, pod, node_name) -> Steps[object]:
            for call in calls:
                answer: Answer = yield call
                Asks.answers.append(answer)
                if answer.error:
                    return error(answer.error)
            seats = [quota["spec"]["seats"] for quota in self._quotas.list()]
            return error(f"seats {seats}") if 0 in seats else None

    return Asks


def quota(seats):
    return QUOTAS.read({"metadata": {"name": "q", "namespace": "default", "uid": "u"}, "spec": {"seats": seats}})


def bound(plugin, *objects):
    node = make_node("n1").capacity(cpu="4", memory="8Gi", pods="9")
    return VirtualCluster(node, *objects, make_pod("a"), plugins=[plugin]).run()


def test_a_patch_of_the_pod_is_seen_and_the_pod_is_bound():
    body = {"metadata": {"annotations": {"example.com/by": "x"}, "labels": None}}
    plugin = asking(ApiCall("patch", "Pod", "default", "a", body))
    found = bound(plugin)
    assert found.nodes_of() == {"a": "n1"}
    assert found.pod("a").metadata.annotations == {"example.com/by": "x"}
    assert plugin.answers[0].result["metadata"]["annotations"] == {"example.com/by": "x"}


def test_an_object_of_any_kind_is_made_read_changed_replaced_and_deleted():
    name = "ConfigMap", "default", "c"
    body = {"metadata": {"name": "c"}, "data": {"x": "1"}}
    plugin = asking(
        ApiCall("create", "ConfigMap", "default", "", body),
        ApiCall("patch", *name, {"data": {"y": "2"}}),
        ApiCall("get", *name),
        ApiCall("update", *name, {"metadata": {"name": "c", "namespace": "default"}, "data": {"z": "3"}}),
        ApiCall("delete", *name),
        ApiCall("get", *name),
    )
    found = bound(plugin)
    assert [answer.result["data"] for answer in plugin.answers[:4]] == [
        {"x": "1"},
        {"x": "1", "y": "2"},
        {"x": "1", "y": "2"},
        {"z": "3"},
    ]
    assert not plugin.answers[4].error and "(NotFound)" in plugin.answers[5].error
    assert found.nodes_of() == {"a": ""}
    assert 'ConfigMap "default/c"' in found.events("FailedScheduling")[0]


def test_what_is_there_is_not_made_again():
    body = {"metadata": {"name": "c"}}
    calls = [ApiCall("create", "ConfigMap", "default", "", body)] * 2
    assert "AlreadyExists" in bound(asking(*calls)).events("FailedScheduling")[0]


@pytest.mark.parametrize("kind", [QUOTAS.name, "TeamQuota"])
@pytest.mark.parametrize("seats", [0, 2])
def test_a_custom_resource_that_the_plugin_follows_is_written_and_seen_at_once(kind, seats):
    plugin = asking(ApiCall("patch", kind, "default", "q", {"spec": {"seats": seats}}))
    found = bound(plugin, quota(7))
    assert found.objects[QUOTAS.name, "default/q"]["spec"]["seats"] == seats
    assert found.nodes_of() == {"a": "n1" if seats else ""}
    assert plugin.answers[0].result["spec"] == {"seats": seats}


def test_a_custom_resource_without_namespaces_is_written():
    rack = RACKS.read({"metadata": {"name": "r"}, "spec": {"full": False}})
    found = bound(asking(ApiCall("patch", RACKS.name, "", "r", {"spec": {"full": True}})), rack)
    assert found.objects[RACKS.name, "r"]["spec"] == {"full": True}


def test_a_kind_that_nobody_knows_is_the_calls_fault():
    found = bound(asking(ApiCall("patch", "Unicorn", "default", "a", {})))
    assert found.nodes_of() == {"a": ""}
    (told,) = found.events("FailedScheduling")
    assert "names the kind 'Unicorn', which is none of the scheduler's" in told
    assert "teamquotas.v1.example.com" in told and "handle.follow" in told


def test_what_cannot_be_read_afterwards_is_not_stored():
    found = bound(asking(ApiCall("patch", "Pod", "default", "a", {"spec": {"priority": "high"}})))
    assert found.nodes_of() == {"a": ""} and found.pod("a").spec.priority != "high"


def test_the_library_answers_as_tests_do():
    scheduler = berth.Scheduler(plugins=[asking(ApiCall("patch", "Pod", "default", "a", {"metadata": {"labels": {}}}))])
    scheduler.add(make_node("n1").capacity(cpu="4", memory="8Gi", pods="9"))
    assert scheduler.schedule(make_pod("a")).node == "n1"


def test_a_test_may_answer_by_itself():
    found = VirtualCluster(plugins=[asking(ApiCall("get", "Pod", "default", "a"))])
    found.answer_api = lambda call: Answer(0, error=f"no {call.verb} today")
    found.put(make_node("n1").capacity(cpu="4", memory="8Gi", pods="9"))
    found.put(make_pod("a"))
    assert "no get today" in found.run().events("FailedScheduling")[0]
    assert make_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}) is not None


@pytest.mark.parametrize(
    ("junk", "told"),
    [
        (42, "yielded 42 (of type int) ("),
        (None, "but an ApiCall or a WaitUntil is expected"),
        (
            ApiCall("fetch", "Pod", "default", "a"),
            "the verb of an ApiCall is one of get, create, update, patch, delete",
        ),
        (ApiCall("get", None, "default", "a"), "the kind of an ApiCall is a string"),
        (ApiCall("patch", "Pod", "default", "a", "x: y"), "the body of an ApiCall is a mapping"),
    ],
)
@pytest.mark.parametrize("answers_before", [0, 1])
def test_what_is_no_effect_is_the_plugins_fault_and_the_pod_is_not_bound(junk, told, answers_before):
    plugin = asking(*[ApiCall("get", "Pod", "default", "a")] * answers_before, junk)
    found = bound(plugin)
    assert found.nodes_of() == {"a": ""}
    (condition,) = found.pod("a").status.conditions
    assert condition.reason == "SchedulerError" and told in condition.message
    assert condition.message.startswith('running PreBind plugin "Asks": WrongAnswer: Asks.pre_bind of ')
    assert "test_api_calls.py:" in condition.message
    plugin.pre_bind = lambda *_: None
    assert found.restart().advance(30.0).nodes_of() == {"a": "n1"}
