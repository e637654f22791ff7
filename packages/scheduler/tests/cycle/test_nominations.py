"""Room that is promised to a pod, and room that is promised no more."""

import pytest

from berth.core.builders import make_pod
from berth.framework.effects import PatchPodStatus
from berth.framework.interface import PostFilterResult
from berth.testing.invariants import check
from packages.scheduler.tests.support import cluster, node, plugin, pod, with_profiles


def nominating(*objects):
    """A cluster in which the last of these, a gated pod, is nominated to n1 all the same, and so stays where it is."""
    found = cluster(*objects[:-1], objects[-1].copy().nominated("n1")).run()
    (queued,) = found.core.queue
    found.core.nominator.nominate(queued.pod, "n1")
    return found


def test_a_gated_pod_that_comes_nominated_reserves_no_room():
    found = cluster(node(), pod("nominated").priority(10).nominated("n1").gate("later"), pod("a")).run()
    assert found.nodes_of()["a"] == "n1"


@pytest.mark.parametrize(
    ("priority", "fits"), [(9, False), (10, False), (11, True)], ids=["lower", "equal", "higher than the nominated"]
)
def test_room_of_a_nominated_pod_is_left_to_it(priority, fits):
    found = nominating(node(), pod("nominated").priority(10).gate("later"))
    found.put(pod("a").priority(priority))
    found.run()
    assert found.nodes_of()["a"] == ("n1" if fits else "")


def test_a_pod_must_fit_without_the_nominated_ones_too():
    """The nominated pod may never come: affinity to it alone is not enough."""
    found = nominating(node(), make_pod("nominated").priority(10).label("app", "db").gate("later"))
    found.put(make_pod("friend").pod_affinity("kubernetes.io/hostname", {"app": "db"}))
    found.run()
    assert len(found.core.nominator) == 1
    assert found.nodes_of()["friend"] == ""


def test_a_nominated_pod_is_not_in_its_own_way():
    found = cluster(node(), pod("a").nominated("n1")).run()
    assert found.nodes_of() == {"a": "n1"}
    assert len(found.core.nominator) == 0


@pytest.mark.parametrize("how", ["deleted", "bound elsewhere", "nomination taken back", "terminating"])
def test_room_that_is_promised_no_more_wakes_others(how):
    nominated = pod("nominated").priority(10).gate("later")
    found = nominating(node(), node("n2").taint("no"), nominated.copy())
    found.put(pod("a"))
    found.run()
    assert found.nodes_of()["a"] == ""
    if how == "deleted":
        found.delete("Pod", "default/nominated")
    else:
        changed = {
            "bound elsewhere": nominated.copy().node("n2"),
            "nomination taken back": nominated.copy(),
            "terminating": nominated.copy().nominated("n1").terminating(),
        }
        found.put(changed[how])
    check(found.core)
    found.advance(2.0)
    assert found.nodes_of()["a"] == "n1"
    assert len(found.core.nominator) == 0


def test_room_that_was_promised_to_a_pod_that_goes_elsewhere_wakes_others():
    """The pod does not fit where it was promised room when it is tried, but it does on another node."""
    nominated = pod("nominated").priority(10).nominated("n1").node_selector({"kubernetes.io/hostname": "n2"})
    found = nominating(node(), node("n2").taint("no"), nominated.copy().gate("hold"))
    found.put(pod("a"))
    found.run()
    assert found.nodes_of()["a"] == ""
    found.put(nominated.tolerate("no"))
    found.advance(2.0)
    assert found.nodes_of() == {"nominated": "n2", "a": "n1"}
    check(found.core)


def test_room_that_is_promised_no_more_after_a_failure_wakes_others():
    config, plugins, answers = preempting("n1")
    found = cluster(node(), node("n2", cpu="3").taint("no"), config=config, plugins=plugins)
    found.put(pod("big", cpu="2").priority(10))
    found.run()
    answers[0] = None
    found.put(pod("a"))
    found.run()
    assert found.nodes_of()["a"] == ""
    answers[0] = ""
    found.core.queue.activate("default/big", found.now)
    found.advance(20.0)
    assert found.nodes_of() == {"big": "", "a": "n1"}
    check(found.core)


def preempting(node_name):
    plugins = {"postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "Nominate"}]}}
    answers = [node_name]
    nominate = plugin(
        "Nominate", post_filter=lambda *_: (None if answers[0] is None else PostFilterResult(answers[0]), None)
    )
    return with_profiles({"plugins": plugins}), {"Nominate": nominate}, answers


def test_post_filter_nominates_moves_and_clears():
    config, plugins, answers = preempting("n1")
    found = cluster(node(), node("n2"), config=config, plugins=plugins)
    found.put(pod("big", cpu="2"))
    found.run()
    assert found.core.nominator.node_of("default/big") == "n1"
    assert found.pod("big").status.nominated_node_name == "n1"
    for wanted in ("n2", ""):
        answers[0] = wanted
        found.put(node("n3" + wanted, cpu="3").taint("no"))
        found.put(node("n3" + wanted, cpu="3").taint("not"))
        found.core.queue.activate("default/big", found.now)
        found.run()
        assert found.core.nominator.node_of("default/big") == (wanted or None)
        assert found.pod("big").status.nominated_node_name == wanted
    check(found.core)


def test_clearing_what_was_never_promised_costs_no_call():
    config, plugins, _ = preempting("")
    found = cluster(node(), config=config, plugins=plugins)
    found.put(pod("big", cpu="2"))
    found.run()
    assert [patch.nominated_node_name for patch in found.patches("big")] == [None]
    assert len([effect for effect in found.effects if isinstance(effect, PatchPodStatus)]) == 1
