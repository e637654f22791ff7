"""What a store keeps in a directory: the same objects after a kill, and words for people where that cannot be.

A kill is played by a second connection on a copy of the directory, taken while the first store still has it open: that
is what the operating system has of it. Killed processes are in `packages/cluster/tests/test_durability.py`.
"""

import os
import shutil
import sqlite3
import stat
from contextlib import suppress
from random import Random

import pytest

from berth.api.user_error import UserError
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.resource_types import DEFINITIONS, RESOURCE_TYPES
from berth_cluster.storage.field_managers import Writer
from berth_cluster.storage.object_file import FILE_NAME, ObjectFile, ObjectFileError
from packages.cluster.tests.objects import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    Clock,
    config_map,
    make_store,
    names,
    pod,
)

WIDGETS = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


class Directory:
    """A directory in which stores live one after the other."""

    def __init__(self, path):
        self.path = path
        self.stores = []
        self.files = []
        path.mkdir()

    def store(self, clock=None, **options):
        numbers = iter(range(10_000))
        first = len(self.stores)
        options.setdefault("uid_factory", lambda: f"uid-{first}-{next(numbers)}")
        kept = ObjectFile(self.path)
        self.files.append(kept)
        self.stores.append(make_store(clock, kept=kept, **options))
        return self.stores[-1]

    def close(self):
        for kept in self.files:
            kept.close()

    def killed(self):
        """The directory as a killed process leaves it."""
        copy = self.path.with_name(f"{self.path.name}-{len(self.stores)}")
        shutil.copytree(self.path, copy)
        self.close()
        self.path, self.stores = copy, []
        return self


@pytest.fixture
def directory(tmp_path):
    made = Directory(tmp_path / "cluster")
    yield made
    made.close()


def everything(store):
    return {kind.unique_kind: sorted(store.objects(kind), key=str) for kind in store.custom.all_types()}


def widget(name):
    return {"metadata": {"name": name}, "spec": {"size": 3}}


def widgets(store):
    return store.custom.find("example.com", "v1", "widgets")


def by(manager, *, is_apply=False):
    return Writer(manager, "v1", [], is_apply)


def test_what_was_flushed_is_there_after_a_kill(directory):
    store = directory.store()
    store.create(NAMESPACES, "", {"metadata": {"name": "own"}})
    store.create(PODS, "own", pod("web"), writer=by("kubectl"))
    store.bind("own", "web", {"target": {"name": "node-1"}})
    store.update(PODS, "own", "web", {**store.get(PODS, "own", "web"), "status": {"phase": "Running"}}, "status")
    store.create(CONFIG_MAPS, "default", config_map("gone"))
    store.flush()
    store.delete(CONFIG_MAPS, "default", "gone")
    store.flush()
    before, revision = everything(store), store.revision
    store.create(CONFIG_MAPS, "default", config_map("never-told-of"))
    again = directory.killed().store()
    assert everything(again) == before
    assert again.revision == revision
    assert again.create(CONFIG_MAPS, "default", config_map())["metadata"]["resourceVersion"] == str(revision + 1)


def test_a_revision_is_not_given_out_again_after_a_deletion(directory):
    store = directory.store()
    store.create(CONFIG_MAPS, "default", config_map("gone"))
    store.delete(CONFIG_MAPS, "default", "gone")
    store.flush()
    assert directory.killed().store().revision == store.revision


def test_a_change_and_the_deletion_after_it_share_a_transaction(directory):
    store = directory.store()
    made = store.create(CONFIG_MAPS, "default", config_map("gone"))
    store.flush()
    store.update(CONFIG_MAPS, "default", "gone", {**made, "data": {"a": "b"}})
    store.delete(CONFIG_MAPS, "default", "gone")
    store.create(CONFIG_MAPS, "default", config_map("stays"))
    store.flush()
    assert names(directory.killed().store().objects(CONFIG_MAPS)) == ["stays"]


def test_custom_resources_come_after_their_definition(directory):
    store = directory.store()
    store.create(DEFINITIONS, "", WIDGETS)
    store.create(widgets(store), "default", widget("first"))
    store.update(widgets(store), "default", "first", {**store.get(widgets(store), "default", "first"), "spec": {}})
    store.update(DEFINITIONS, "", "widgets.example.com", store.get(DEFINITIONS, "", "widgets.example.com"))
    store.flush()
    again = directory.killed().store()
    assert everything(again) == everything(store)
    assert again.get(widgets(again), "default", "first")["metadata"]["generation"] == 2
    again.delete(DEFINITIONS, "", "widgets.example.com")
    again.flush()
    third = directory.killed().store()
    assert widgets(third) is None and not third.objects(DEFINITIONS)


def test_a_definition_that_waits_for_its_objects_goes_on_waiting(directory):
    store = directory.store()
    store.create(DEFINITIONS, "", WIDGETS)
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    store.create(widgets(store), "default", held)
    store.delete(DEFINITIONS, "", "widgets.example.com")
    store.flush()
    again = directory.killed().store()
    kind = widgets(again)
    assert names(again.objects(kind)) == ["held"]
    live = again.get(kind, "default", "held")
    again.update(kind, "default", "held", {**live, "metadata": {**live["metadata"], "finalizers": []}})
    assert widgets(again) is None and not again.objects(DEFINITIONS)


def test_owners_of_fields_are_known_again(directory):
    store = directory.store()
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"a": "1", "b": "1"}}
    store.create(CONFIG_MAPS, "default", applied, writer=by("first", is_apply=True))
    other = {**applied, "data": {"c": "1"}}
    store.apply(CONFIG_MAPS, "default", "shared", other, by("second", is_apply=True))
    store.create(PODS, "default", pod("web"), writer=by("third"))
    store.flush()
    again = directory.killed().store()
    with pytest.raises(StoreError, match=r'conflict with "first": \.data\.a'):
        again.apply(CONFIG_MAPS, "default", "shared", {**applied, "data": {"a": "2"}}, by("second", is_apply=True))
    image = {"containers": [{"name": "main", "image": "other"}]}
    named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": image}
    with pytest.raises(StoreError, match='conflict with "third" using v1'):
        again.apply(PODS, "default", "web", named, by("second", is_apply=True))
    kept = again.apply(CONFIG_MAPS, "default", "shared", {**applied, "data": {"b": "1"}}, by("first", is_apply=True))
    assert kept["data"] == {"b": "1", "c": "1"}  # "a" is wanted by nobody any more


def test_an_apply_that_changes_owners_alone_is_kept(directory):
    store = directory.store()
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"a": "1"}}
    store.create(CONFIG_MAPS, "default", applied, writer=by("first", is_apply=True))
    store.flush()
    store.apply(CONFIG_MAPS, "default", "shared", applied, by("second", is_apply=True))
    store.flush()
    again = directory.killed().store()
    left = again.apply(CONFIG_MAPS, "default", "shared", {**applied, "data": {}}, by("first", is_apply=True))
    assert left["data"] == {"a": "1"}


def test_an_apply_by_which_the_last_finalizer_goes(directory):
    store = directory.store()
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}}
    held = {**applied, "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    store.create(CONFIG_MAPS, "default", held, writer=by("first", is_apply=True))
    store.delete(CONFIG_MAPS, "default", "held")
    store.apply(CONFIG_MAPS, "default", "held", applied, by("first", is_apply=True))
    store.flush()
    assert directory.killed().store().find(CONFIG_MAPS, "default", "held") is None


def test_watches_and_lists_of_what_was_before_are_refused(directory):
    store = directory.store()
    store.create(CONFIG_MAPS, "default", config_map("one"))
    store.create(CONFIG_MAPS, "default", config_map("two"))
    store.flush()
    again = directory.killed().store()
    for since in (1, store.revision - 1):
        with pytest.raises(StoreError) as refused:
            again.watch(CONFIG_MAPS, resource_version=str(since))
        assert refused.value.status_code == 410
        with pytest.raises(StoreError) as refused:
            again.entries(CONFIG_MAPS, revision=since)
        assert refused.value.status_code == 410
    watch = again.watch(CONFIG_MAPS, resource_version=str(store.revision))
    again.delete(CONFIG_MAPS, "default", "one")
    assert [(event.type, event.object["metadata"]["name"]) for event in watch.events()] == [("DELETED", "one")]


def event(name):
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "web"}}


def test_events_expire_when_they_would_have(directory):
    clock = Clock()
    store = directory.store(clock)
    store.create(EVENTS, "default", event("old"))
    store.flush()
    clock.advance(1800)
    store.create(EVENTS, "default", event("new"))
    store.flush()
    again = directory.killed().store(clock)
    clock.advance(1799)
    assert again.expire_events() == 0
    clock.advance(1)
    assert again.expire_events() == 1
    again.flush()
    assert names(directory.killed().store(clock).objects(EVENTS)) == ["new"]


def test_the_file_does_not_grow_with_what_comes_and_goes(directory):
    clock = Clock()
    store = directory.store(clock, event_ttl_s=100)
    sizes = []
    for number in range(3000):
        clock.advance(1)
        store.create(EVENTS, "default", event(f"e{number}"))
        if number % 10 == 0:
            store.flush()
            sizes.append(sum(each.stat().st_size for each in directory.path.iterdir()))
    assert max(sizes[len(sizes) // 2 :]) <= 1.05 * max(sizes[: len(sizes) // 2])


def test_what_is_free_is_given_back_at_the_next_start(directory):
    store = directory.store()
    for number in range(3000):
        store.create(CONFIG_MAPS, "default", config_map(f"c{number}", text="x" * 4000))
    store.flush()
    for obj in store.objects(CONFIG_MAPS, "default"):
        store.delete(CONFIG_MAPS, "default", obj["metadata"]["name"])
    store.close()
    large = (directory.path / FILE_NAME).stat().st_size
    directory.store().close()
    assert (directory.path / FILE_NAME).stat().st_size < large / 10


def test_only_the_owner_may_read_it(directory):
    directory.store()
    assert stat.S_IMODE((directory.path / FILE_NAME).stat().st_mode) == 0o600


def test_it_is_a_state_that_once_was_wherever_it_is_cut_off(directory):
    """A killed process may leave its log at any length: what is there then is what one of the flushes has written."""
    store = directory.store()
    states = {0: {}}
    for number in range(12):
        store.create(CONFIG_MAPS, "default", config_map(f"c{number}", text="x" * 500))
        if number > 2:
            store.delete(CONFIG_MAPS, "default", f"c{number - 3}")
        store.flush()
        states[store.revision] = everything(store)
    log = next(directory.path.glob("*-wal"))
    whole, seen = log.read_bytes(), set()
    for cut in range(0, len(whole), 1499):
        copy = directory.path.with_name(f"cut-{cut}")
        shutil.copytree(directory.path, copy)
        os.truncate(copy / log.name, cut)
        kept = ObjectFile(copy)
        again = make_store(kept=kept, system_objects=False)
        seen.add(again.revision)
        assert (everything(again) if again.revision else {}) == states[again.revision]
        kept.close()
    assert len(seen) > 6


class TestWhatCannotBeGoneOnWith:
    """Each ends in one error for people, which names the file."""

    def refused(self, directory):
        with pytest.raises(UserError) as refused:
            directory.store()
        assert f"cannot go on with {directory.path / FILE_NAME}: " in str(refused.value)
        assert "move it away, or choose another --dir" in str(refused.value)
        return str(refused.value)

    def with_some(self, directory):
        store = directory.store()
        for number in range(50):
            store.create(CONFIG_MAPS, "default", config_map(f"c{number}", text="x" * 500))
        store.close()
        return directory.path / FILE_NAME

    def test_no_database(self, directory):
        (directory.path / FILE_NAME).write_bytes(b"what is this? " * 1000)
        assert "file is not a database" in self.refused(directory)

    def test_another_programs_database(self, directory):
        with sqlite3.connect(directory.path / FILE_NAME) as other:
            other.execute("CREATE TABLE bookmarks (url)")
        other.close()
        assert "another program's" in self.refused(directory)

    def test_a_newer_format(self, directory):
        path = self.with_some(directory)
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA user_version = 7")
        other.close()
        assert "a newer Berth has written it, in format 7; this one knows 1" in self.refused(directory)

    def test_a_damaged_page(self, directory):
        path = self.with_some(directory)
        content = bytearray(path.read_bytes())
        content[8192:] = b"\xee" * (len(content) - 8192)
        path.write_bytes(content)
        assert "malformed" in self.refused(directory)

    def test_an_object_that_is_not_json(self, directory):
        path = self.with_some(directory)
        with sqlite3.connect(path) as other:
            other.execute("UPDATE objects SET object = x'7b' WHERE name = 'c7'")
        other.close()
        assert "/configmaps default/c7 is damaged" in self.refused(directory)

    def test_a_value_with_a_byte_that_is_no_text(self, directory):
        path = self.with_some(directory)
        content = path.read_bytes()
        assert content.count(b"x" * 500) == 50
        path.write_bytes(content.replace(b"x" * 500, b"x" * 250 + b"\xff" + b"x" * 249, 1))
        assert "/configmaps default/c" in self.refused(directory)

    @pytest.mark.parametrize("column", ["api_group", "plural", "namespace", "name", "revision", "written_s", "owners"])
    @pytest.mark.parametrize("value", ["CAST(x'c3ff' AS TEXT)", "x'c3ff'", "NULL", "'?'", "-1.5", "9e999"])
    def test_a_column_that_holds_something_else(self, directory, column, value):
        path = self.with_some(directory)
        with sqlite3.connect(path) as other:
            other.execute(f"UPDATE objects SET {column} = {value} WHERE name = 'c7'")
        other.close()
        with suppress(ObjectFileError):  # a cluster, or this
            directory.store()

    @pytest.mark.parametrize(
        "damaged",
        [
            b"[]",
            b"7",
            b"{}",
            b'{"metadata": {}}',
            b'{"metadata": {"name": 7}}',
            b'{"metadata": {"name": "c7"}}',
            b"\xff",
        ],
    )
    @pytest.mark.parametrize("of", [CONFIG_MAPS, EVENTS, DEFINITIONS], ids=lambda kind: kind.plural)
    def test_an_object_that_is_something_else(self, directory, of, damaged):
        path = self.with_some(directory)
        with sqlite3.connect(path) as other:
            other.execute(
                "UPDATE objects SET api_group = ?, plural = ?, object = ? WHERE name = 'c7'", (*of.key, damaged)
            )
        other.close()
        assert f"/{of.plural} default/c7 is damaged" in self.refused(directory)

    def test_any_byte_that_is_another(self, directory):
        """Many are of texts, in which no one can tell; none ends in anything but the error or a cluster."""
        path, rng = self.with_some(directory), Random(1)
        whole = path.read_bytes()
        refused = 0
        for at in rng.sample(range(len(whole)), 150):
            content = bytearray(whole)
            content[at] ^= rng.randrange(1, 256)
            path.write_bytes(content)
            try:
                directory.store()
            except ObjectFileError:
                refused += 1
            directory.close()
            for left in directory.path.glob("*-*"):
                left.unlink()
        assert refused

    def test_an_empty_file(self, directory):
        (directory.path / FILE_NAME).touch()
        assert "it is empty" in self.refused(directory)

    def test_a_directory(self, directory):
        (directory.path / FILE_NAME).mkdir()
        assert "Is a directory" in self.refused(directory)

    def test_a_file_that_may_not_be_read(self, directory, monkeypatch):
        path = self.with_some(directory)

        def refuse(*_arguments, **_options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(type(path), "open", refuse)  # who runs the tests may be root, whom nothing is forbidden
        assert "Permission denied" in self.refused(directory)

    def test_a_database_without_tables(self, directory):
        with sqlite3.connect(directory.path / FILE_NAME) as other:
            other.execute("PRAGMA user_version = 1")
        other.close()
        assert "it holds no cluster" in self.refused(directory)

    def test_objects_that_nothing_declares(self, directory):
        path = self.with_some(directory)
        with sqlite3.connect(path) as other:
            other.execute("UPDATE objects SET api_group = 'example.com', plural = 'gadgets' WHERE name = 'c7'")
        other.close()
        assert "it holds gadgets.example.com, which nothing declares" in self.refused(directory)


def test_a_full_disk_is_told_and_nothing_more_is_answered(directory):
    store = directory.store()
    store.create(CONFIG_MAPS, "default", config_map("before"))
    store.flush()
    told = []
    store.kept.on_failure = lambda: told.append("full")
    store.kept._connection.execute("PRAGMA max_page_count = 20")
    for number in range(100):
        store.create(CONFIG_MAPS, "default", config_map(f"c{number}", text="x" * 4000))
    for _ in range(2):
        with pytest.raises(ObjectFileError, match="database or disk is full; make room and start again"):
            store.flush()
    store.delete(CONFIG_MAPS, "default", "before")
    with pytest.raises(ObjectFileError):
        store.flush()
    assert told == ["full"]
    store.close()
    assert names(directory.killed().store().objects(CONFIG_MAPS)) == ["before"]


def test_every_kind_of_the_table_may_be_kept():
    """An object is found again by group and plural, so that no two kinds may share them."""
    assert len({kind.key for kind in RESOURCE_TYPES}) == len(RESOURCE_TYPES)
