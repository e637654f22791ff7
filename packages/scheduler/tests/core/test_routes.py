"""Canaries take a share of another profile's pods, or those that a selector selects.

Expectations are those of docs/living-with-plugins.md.
"""

import pytest

from berth.config.load import load_config
from berth.core.routes import Routes
from berth.plugin import unschedulable
from berth.testing import VirtualCluster, make_node, make_pod
from berth.testing.invariants import check
from packages.scheduler.tests.config.documents import v1_document


class Marks:
    """Says no, so that a pod's condition shows who has decided."""

    name = "Marks"

    def __init__(self, args, handle):
        self.is_shut = True

    def filter(self, state, pod, node):
        return unschedulable("the canary says no") if self.is_shut else None


def cluster_with(*canaries, **options):
    profiles = [{"schedulerName": "default-scheduler"}]
    for number, canary in enumerate(canaries):
        enabled = {"multiPoint": {"enabled": [{"name": "Marks"}]}}
        profiles.append(
            {"schedulerName": f"canary-{number}", "plugins": enabled, "canary": {"of": "default-scheduler", **canary}}
        )
    return VirtualCluster(
        make_node("n0").capacity(cpu="1000", memory="1000Gi", pods="5000"),
        plugins={"Marks": Marks},
        config=v1_document(profiles=profiles),
        **options,
    )


def taken(cluster):
    return {name for name, node in cluster.nodes_of().items() if not node}


def test_a_share_is_drawn_by_uid_and_is_the_same_every_time():
    cluster, again = (cluster_with({"percentage": 20}) for _ in range(2))
    for number in range(1000):
        cluster.put(make_pod(f"p{number}"))
    for number in reversed(range(1000)):
        again.put(make_pod(f"p{number}"))
    cluster.run()
    again.run()
    assert 150 < len(taken(cluster)) < 250
    assert taken(cluster) == taken(again)
    check(cluster.core)


def test_shares_of_several_canaries_do_not_overlap_and_may_be_all():
    cluster = cluster_with({"percentage": 30}, {"percentage": 70})
    for number in range(300):
        cluster.put(make_pod(f"p{number}"))
    cluster.run()
    assert len(taken(cluster)) == 300
    found = {pod.profile_name for pod in cluster.core.intake.pods}
    assert found == {"canary-0", "canary-1"}


def test_a_selector_takes_the_pods_that_it_selects_and_no_others():
    cluster = cluster_with({"selector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}})
    cluster.put(make_pod("red").label("team", "red"))
    cluster.put(make_pod("blue").label("team", "blue"))
    cluster.put(make_pod("other").label("team", "red").scheduler("somebody-else"))
    cluster.run()
    assert cluster.nodes_of() == {"red": "", "blue": "n0", "other": ""}
    assert all("the canary says no" in told for told in cluster.events("FailedScheduling"))


def test_pods_may_name_a_canary_themselves():
    cluster = cluster_with({"percentage": 0.01})
    cluster.put(make_pod("web").scheduler("canary-0"))
    cluster.run()
    assert taken(cluster) == {"web"}


def test_what_a_canary_turned_away_waits_for_what_its_plugins_wait_for():
    cluster = cluster_with({"percentage": 100})
    cluster.put(make_pod("web"))
    cluster.run()
    (marks,) = [p.plugin for p in cluster.core.profiles["canary-0"].plugins if p.name == "Marks"]
    marks.is_shut = False
    cluster.put(make_node("n1").capacity(cpu="1", memory="1Gi"))  # it registered for nothing, so anything may help
    cluster.advance(15.0)
    assert cluster.nodes_of()["web"]


def test_a_label_that_changes_moves_a_pending_pod_to_another_profile():
    cluster = cluster_with({"selector": {"matchLabels": {"team": "red"}}})
    cluster.put(make_pod("web").label("team", "red"))
    cluster.run()
    assert taken(cluster) == {"web"}
    cluster.put(make_pod("web").label("team", "blue"))
    cluster.advance(15.0)
    assert cluster.nodes_of() == {"web": "n0"}
    check(cluster.core)


def test_members_of_a_group_go_together():
    config = v1_document(
        profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "canary": {"of": "a", "percentage": 50}}]
    )
    routes = Routes(load_config(config).profiles)
    for group in range(20):
        members = [make_pod(f"p{group}-{number}").scheduler("a").group(f"g{group}").info() for number in range(20)]
        assert len({routes.name_for(pod) for pod in members}) == 1
    singles = [make_pod(f"p{number}").scheduler("a").info() for number in range(20)]
    assert len({routes.name_for(pod) for pod in singles}) == 2


@pytest.mark.parametrize("percentage", [0.5, 5, 50])
def test_shares_are_as_large_as_they_say(percentage):
    canary = {"of": "a", "percentage": percentage}
    config = load_config(v1_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "canary": canary}]))
    routes = Routes(config.profiles)
    drawn = sum(routes.name_for(make_pod(f"pod-{n}").scheduler("a").info()) == "b" for n in range(4000))
    assert drawn == pytest.approx(40 * percentage, rel=0.35)
