"""Sightings of objects, and the changes that they amount to."""

import json

import msgspec
import pytest

from berth.api.resources import RESOURCES
from berth.kube.changes import Added, Deleted, InvalidObject, Modified
from berth.kube.mirror import Mirror
from berth.kube.wire import MalformedError, WireReader


def node(name="n1", version="1", uid="u1", cpu="4"):
    document = {
        "metadata": {"name": name, "uid": uid, "resourceVersion": version},
        "status": {"allocatable": {"cpu": cpu}},
    }
    return msgspec.Raw(json.dumps(document).encode())


def make():
    return Mirror(RESOURCES["Node"], WireReader())


def told(sighting):
    return [type(change) for change in sighting.changes]


def test_a_life():
    mirror = make()
    assert told(mirror.upsert(node(version="1"))) == [Added]
    change = mirror.upsert(node(version="2", cpu="8")).changes[0]
    assert isinstance(change, Modified)
    assert (change.old.status.allocatable["cpu"], change.object.status.allocatable["cpu"]) == ("4", "8")
    assert told(mirror.upsert(node(version="2", cpu="8"))) == []  # a list repeats what the watch has told
    gone = mirror.remove(node(version="3")).changes[0]
    assert isinstance(gone, Deleted) and gone.object.metadata.resource_version == "2"
    assert told(mirror.remove(node(version="3"))) == []


def test_same_name_other_uid_is_another_object():
    mirror = make()
    mirror.upsert(node(uid="u1", version="1"))
    sighting = mirror.upsert(node(uid="u2", version="5"))
    assert told(sighting) == [Deleted, Added]
    assert sighting.changes[0].object.metadata.uid == "u1"


def test_retain_gives_up_the_unseen():
    mirror = make()
    for name in ("a", "b", "c"):
        mirror.upsert(node(name))
    assert sorted(change.object.metadata.name for change in mirror.retain({("", "b")})) == ["a", "c"]
    assert list(mirror.objects) == [("", "b")]


def test_objects_are_kept_whole_without_managed_fields_where_that_is_asked_for():
    mirror = Mirror(RESOURCES["Node"], WireReader(), keep_raw=True)
    document = {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "1"}, "spec": {"podCIDR": "10.0.0.0/24"}}
    whole = json.loads(json.dumps(document))
    document["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    mirror.upsert(msgspec.Raw(json.dumps(document).encode()))
    assert json.loads(mirror.raw["", "n1"]) == whole
    whole["metadata"]["resourceVersion"] = "2"
    mirror.upsert(msgspec.Raw(json.dumps(whole).encode()))
    assert json.loads(mirror.raw["", "n1"]) == whole
    mirror.upsert(node(version="3", cpu="x"))  # the last good state stays
    assert json.loads(mirror.raw["", "n1"]) == whole
    mirror.remove(node(version="4"))
    assert mirror.raw == {}


def test_nothing_is_kept_whole_otherwise():
    mirror = make()
    mirror.upsert(node())
    assert mirror.raw == {}


class TestInvalid:
    def test_new_object_is_told_once_and_left_out(self):
        mirror = make()
        change = mirror.upsert(node(cpu="4 cores", version="1")).changes[0]
        assert isinstance(change, InvalidObject)
        assert change.name == "n1" and change.old is None
        assert "status.allocatable[cpu]" in change.problem and "'4 cores'" in change.problem
        assert told(mirror.upsert(node(cpu="4 cores", version="2"))) == []
        assert told(mirror.upsert(node(cpu="5 cores", version="3"))) == [InvalidObject]
        assert told(mirror.upsert(node(cpu="5", version="4"))) == [Added]
        assert not mirror.invalid

    def test_old_state_stays_in_force(self):
        mirror = make()
        mirror.upsert(node(cpu="4", version="1"))
        change = mirror.upsert(node(cpu="x", version="2")).changes[0]
        assert change.old.status.allocatable["cpu"] == "4"
        assert told(mirror.upsert(node(cpu="8", version="3"))) == [Modified]

    def test_deleted_while_invalid(self):
        mirror = make()
        mirror.upsert(node(cpu="4", version="1"))
        mirror.upsert(node(cpu="x", version="2"))
        assert told(mirror.remove(node(cpu="x", version="3"))) == [Deleted]
        assert not mirror.invalid and not mirror.objects

    def test_another_object_of_the_name_gives_up_the_first(self):
        mirror = make()
        mirror.upsert(node(uid="u1", version="1"))
        sighting = mirror.upsert(node(uid="u2", cpu="x", version="2"))
        assert told(sighting) == [Deleted, InvalidObject]
        assert sighting.changes[1].old is None

    def test_never_valid_and_gone(self):
        mirror = make()
        mirror.upsert(node(cpu="x"))
        assert mirror.retain(set()) == []
        assert not mirror.invalid


@pytest.mark.parametrize("raw", [b"[]", b'{"metadata":7}', b'{"metadata":{"name":3}}'])
def test_without_a_name_nothing_can_be_set_aside(raw):
    with pytest.raises(MalformedError, match="no readable metadata"):
        make().upsert(msgspec.Raw(raw))
