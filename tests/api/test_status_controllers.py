"""What has to be written into statuses, and that nothing is where nothing has changed; merge patches after RFC 7386."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.custom import CustomResource
from berth.api.status_controllers import FollowedStatuses, Place, merge_patch
from berth.testing import make_pod
from berth_cluster.apimachinery.patches import apply_patch

TEAMS = CustomResource("example.com", "v1", "teams", "Team")


class Counting:
    """Counts the pods of a team, which a label names."""

    name = "counting"
    resource = TEAMS

    def group_of(self, obj):
        return obj.metadata.name

    def group_of_pod(self, pod):
        return pod.metadata.labels.get("team")

    def reconcile(self, obj, pods):
        if obj.get("broken"):
            raise RuntimeError("no")
        return {"pods": [pod.metadata.name for pod in pods] or None}


def team(name, status=None, **more):
    meta = {"name": name, "namespace": "default", "resourceVersion": "7"}
    return TEAMS.read({"metadata": meta, "status": status or {}, **more})


def member(name, of):
    made = make_pod(name)
    return (made.label("team", of) if of else made).build()


@pytest.fixture
def followed():
    return FollowedStatuses(Counting())


def statuses(followed):
    """What is due, each with what would be written."""
    found = {}
    while followed.due:
        place = next(iter(followed.due))
        del followed.due[place]
        patch = followed.next_patch(place)
        found[place.name] = patch and patch["status"]
    return found


def test_only_what_a_pod_concerns_is_looked_at(followed):
    followed.take(team("red", {"since": "today"}))
    followed.take(team("blue"))
    assert statuses(followed) == {"red": None, "blue": None}
    followed.take_pod(member("b", "red"))
    followed.take_pod(member("a", "red"))
    followed.take_pod(member("c", None))
    assert statuses(followed) == {"red": {"pods": ["a", "b"]}}


def test_a_pod_that_changes_sides_concerns_both(followed):
    followed.take(team("red"))
    followed.take(team("blue"))
    followed.take_pod(member("a", "red"))
    statuses(followed)
    followed.take_pod(member("a", "blue"))
    assert statuses(followed) == {"red": None, "blue": {"pods": ["a"]}}
    followed.drop_pod(member("a", "blue"))
    assert statuses(followed) == {"blue": None}


def test_what_is_there_already_is_not_written_and_what_is_gone_is_taken_away(followed):
    followed.take(team("red", {"pods": ["a"], "since": "today"}))
    assert statuses(followed) == {"red": {"pods": None}}
    followed.take_pod(member("a", "red"))
    followed.take(team("red", {"pods": ["a"], "since": "today"}))
    assert statuses(followed) == {"red": None}


def test_a_patch_names_the_version_it_was_made_of(followed):
    followed.take(team("red", {"pods": ["a"]}))
    assert followed.next_patch(Place("default", "red"))["metadata"] == {"resourceVersion": "7"}


def test_what_is_gone_is_not_looked_at(followed):
    followed.take(team("red"))
    followed.drop(team("red"))
    followed.take_pod(member("a", "red"))
    assert not followed.due
    assert followed.next_patch(Place("default", "red")) is None


def test_a_controller_that_fails_keeps_none_of_the_others_from_working(followed, caplog):
    followed.take(team("red", broken=True))
    followed.take(team("blue", {"pods": ["a"]}))
    assert statuses(followed) == {"red": None, "blue": {"pods": None}}
    assert "counting failed on default/red" in caplog.text


JSON = st.recursive(
    st.integers(0, 2) | st.sampled_from(["a", "b"]) | st.lists(st.integers(0, 2), max_size=2),
    lambda each: st.dictionaries(st.sampled_from("xyz"), each, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_one_to_the_other(before, after):
    patch = merge_patch(before, after)
    assert apply_patch(before, patch, "application/merge-patch+json") == after
    assert bool(patch) == (before != after)
