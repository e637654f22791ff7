"""Cases beside the recorded ones: how a case goes wrong, and what one pod leaves for the next."""

import pytest

from berth.cases import CaseError
from berth.plugins.registry import in_tree_registry
from berth.replay import replay
from berth.testing.builders import make_node, make_pod


def case(objects, pods, **more):
    return {
        "name": "a case",
        "objects": [made.document for made in objects],
        "pods": [made.document for made in pods],
        **more,
    }


def decisions(objects, *pods, **more):
    return replay(case(objects, pods, **more), in_tree_registry())


def node(name="n1", cpu="1"):
    return make_node(name).capacity(cpu=cpu, memory="1Gi")


def test_a_pod_that_fits_takes_its_room_and_one_that_does_not_leaves_nothing():
    first, second, third = decisions(
        [node()],
        make_pod("a").request(cpu="600m"),
        make_pod("b").request(cpu="600m"),
        make_pod("c").request(cpu="400m"),
    )
    assert (first["pod"], first["chosen"], third["chosen"]) == ("default/a", "n1", "n1")
    assert "chosen" not in second
    assert second["filter"] == {"n1": {"NodeResourcesFit": {"code": "Unschedulable", "reasons": ["Insufficient cpu"]}}}
    assert second["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert second["unschedulablePlugins"] == ["NodeResourcesFit"]


def test_among_equals_the_smallest_name_is_chosen():
    (only,) = decisions([node("n2"), node("n10"), node("n1")], make_pod("a"))
    assert only["chosen"] == "n1"
    assert len(set(only["total"].values())) == 1


def test_without_nodes():
    assert decisions([], make_pod("a")) == [{"pod": "default/a", "message": "no nodes available to schedule pods"}]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"generation": "v1.99"}, "a case"),
        ({"objects": [{"kind": "Spaceship"}]}, "Spaceship"),
        ({"generation": "v1.20", "provider": "Fast"}, 'a case\': provider: .*"Fast".*"ClusterAutoscalerProvider"'),
    ],
)
def test_cases_that_cannot_be_replayed(more, words):
    with pytest.raises(CaseError, match=words):
        replay({**case([], []), **more}, in_tree_registry())
