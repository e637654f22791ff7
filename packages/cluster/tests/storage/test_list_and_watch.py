"""Lists and watches against the plainest model there is: everything that ever happened, kept in a list.

Random writers, watchers, pages and restarts. The model knows of the store only what every client may rely on: revisions
rise, a history of a known length can be watched, and whoever asks for more is told so (410). From that it works out
each answer, and the store's has to be the same: each watcher sees each change of what it selects exactly once, in the
order of revisions; all pages of a list show one revision; and what a watcher has put together is what a list shows.
Source: kubernetes.io "Kubernetes API Concepts" (efficient detection of changes, streaming lists, paged lists).
"""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from berth.api.errors import ApiError
from berth.api.resources import Resource
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.serving.forms import INITIAL_EVENTS_END
from berth_cluster.serving.listing import Listing
from berth_cluster.serving.requests import list_options
from berth_cluster.serving.transport import StoreTransport
from berth_cluster.storage.object_file import ObjectFile
from berth_cluster.storage.watch import WatchLimits
from packages.cluster.tests.objects import CONFIG_MAPS, NAMESPACES, make_store
from tests.effort import examples

HISTORY = 6  # changes of a resource that the store keeps
LAG = 4  # events that a watcher may lag behind
RESOURCE = Resource("", "v1", "configmaps", "ConfigMap", True)

namespaces = st.sampled_from(["default", "kube-system"])
object_names = st.sampled_from(["a", "b", "c", "d"])
colours = st.sampled_from(["red", "blue", ""])


class Selection(NamedTuple):
    """What a client asks for, in its words."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def has(self, place, colour):
        """The same in the model's."""
        if self.namespace and place[0] != self.namespace:
            return False
        if self.fields and f"metadata.name={place[1]}" != self.fields:
            return False
        return {
            "": True,
            "colour": bool(colour),
            "!colour": not colour,
            "colour=red": colour == "red",
            "colour!=red": colour != "red",
            "colour in (red,blue)": colour in ("red", "blue"),
        }[self.labels]


selections = st.builds(
    Selection,
    st.sampled_from(["", "", "default"]),
    st.sampled_from(["", "colour", "!colour", "colour=red", "colour!=red", "colour in (red,blue)"]),
    st.sampled_from(["", "", "metadata.name=a"]),
)


class Change(NamedTuple):
    """One write of the model: the colour of an object before and after it, None where it is not there."""

    revision: int
    place: tuple[str, str]
    before: str | None
    after: str | None


class Watcher:
    """A client that follows what it selects: what it has been told, and since when."""

    def __init__(self, selection, since):
        self.selection = selection
        self.since = since  # the revision up to which it has seen everything
        self.state = {}
        self.watch = None


class Pages:
    """A list that somebody reads page by page, and which of its objects are still to come."""

    def __init__(self, selection, token, revision, rest):
        self.selection, self.token, self.revision, self.rest = selection, token, revision, rest


def unless_gone(ask):
    """The answer; None where it is 410."""
    try:
        return ask()
    except (ApiError, StoreError) as refused:
        if getattr(refused, "status_code", None) != 410 and getattr(refused, "status", None) != 410:
            raise
        return None


class ListAndWatch(RuleBasedStateMachine):
    """The rules are what clients do; each holds the store's answer against the model's."""

    watchers = Bundle("watchers")
    lists = Bundle("lists")

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="berth-list-and-watch-"))
        self.now = {}  # place -> (colour, revision)
        self.changes = []
        self.begun = 0  # the revision with which the store that runs now began, if it found objects
        self.open = []
        self.start()

    def start(self):
        self.store = make_store(
            history=HISTORY, watch_limits=WatchLimits(events=LAG), kept=ObjectFile(self.directory), uid_factory=None
        )
        self.transport = StoreTransport(self.store)

    def teardown(self):
        self.store.close()
        shutil.rmtree(self.directory)

    # --- the model -----------------------------------------------------------------------------------------------

    def wrote(self, place, before, after):
        self.changes.append(Change(self.store.revision, place, before, after))
        if after is None:
            del self.now[place]
        else:
            self.now[place] = (after, self.store.revision)

    @property
    def forgotten(self):
        """The last revision of which the store has forgotten what came before it."""
        kept = [change for change in self.changes if change.revision > self.begun]
        return self.begun if len(kept) <= HISTORY else kept[-HISTORY - 1].revision

    def at(self, revision, selection):
        """What a list of a revision shows, in order."""
        found = {}
        for change in self.changes:
            if change.revision <= revision:
                found[change.place] = (change.after, change.revision)
        return [
            (place, seen)
            for place, (colour, seen) in sorted(found.items())
            if colour is not None and selection.has(place, colour)
        ]

    def events(self, selection, since):
        """What a watcher is told of the changes after a revision."""
        found = []
        for change in self.changes:
            was = change.before is not None and selection.has(change.place, change.before)
            is_now = change.after is not None and selection.has(change.place, change.after)
            if change.revision > since and (was or is_now):
                kind = "MODIFIED" if was and is_now else "ADDED" if is_now else "DELETED"
                found.append((kind, change.place, change.revision))
        return found

    # --- writers -------------------------------------------------------------------------------------------------

    @rule(namespace=namespaces, name=object_names, colour=colours)
    def create(self, namespace, name, colour):
        labels = {"colour": colour} if colour else {}
        obj = {"metadata": {"name": name, "labels": labels}, "data": {"n": "0"}}
        if (namespace, name) in self.now:
            with pytest.raises(StoreError, match="already exists"):
                self.store.create(CONFIG_MAPS, namespace, obj)
        else:
            self.store.create(CONFIG_MAPS, namespace, obj)
            self.wrote((namespace, name), None, colour)

    @precondition(lambda self: self.now)
    @rule(data=st.data(), colour=colours)
    def update(self, data, colour):
        place = data.draw(st.sampled_from(sorted(self.now)))
        live = self.store.get(CONFIG_MAPS, *place)
        text = str(int(live["data"]["n"]) + 1)
        labels = {"colour": colour} if colour else {}
        new = {**live, "metadata": {**live["metadata"], "labels": labels}, "data": {"n": text}}
        self.store.update(CONFIG_MAPS, *place, new)
        self.wrote(place, self.now[place][0], colour)

    @precondition(lambda self: self.now)
    @rule(data=st.data())
    def update_that_changes_nothing(self, data):
        place = data.draw(st.sampled_from(sorted(self.now)))
        self.store.update(CONFIG_MAPS, *place, self.store.get(CONFIG_MAPS, *place))

    @precondition(lambda self: self.now)
    @rule(data=st.data())
    def delete(self, data):
        place = data.draw(st.sampled_from(sorted(self.now)))
        self.store.delete(CONFIG_MAPS, *place)
        self.wrote(place, self.now[place][0], None)

    @rule(selection=selections)
    def delete_all_of(self, selection):
        for entry in self.store.entries(CONFIG_MAPS, *selection):
            self.store.delete(CONFIG_MAPS, *entry.place)
            self.wrote(entry.place, self.now[entry.place][0], None)

    @rule()
    def write_elsewhere(self):
        live = self.store.get(NAMESPACES, "", "kube-public")
        labels = {**live["metadata"].get("labels", {}), "n": str(self.store.revision)}
        self.store.update(NAMESPACES, "", "kube-public", {**live, "metadata": {**live["metadata"], "labels": labels}})

    @rule()
    def flush(self):
        self.store.flush()

    @precondition(lambda self: self.store.revision > self.begun + 2 * HISTORY)
    @rule()
    def restart(self):
        """All objects are there again; the history is not."""
        self.begun = self.store.revision
        self.store.close()
        self.open.clear()
        self.start()
        assert self.store.revision == self.begun

    # --- watchers ------------------------------------------------------------------------------------------------

    @rule(target=watchers, selection=selections, back=st.integers(0, 2 * HISTORY))
    def follow_from(self, selection, back):
        """A watcher that begins with a list of some revision, or has seen it in former times."""
        return Watcher(selection, max(1, self.store.revision - back))

    @rule(target=watchers, selection=selections, unset=st.sampled_from(["", "0"]))
    def follow_everything(self, selection, unset):
        """A watcher without a revision sees the objects that are there first."""
        watcher = Watcher(selection, self.store.revision)
        watcher.watch = self.store.watch(CONFIG_MAPS, *selection, unset)
        self.open.append(watcher.watch)
        shown = [("ADDED", place, seen) for place, seen in self.at(watcher.since, selection)]
        assert self.tell(watcher, watcher.watch.initial_events(1000)) == shown
        return watcher

    @rule(watcher=watchers)
    def read(self, watcher):
        """Go on where the watcher has stopped, in the watch that it has, or in a new one."""
        if watcher.watch not in self.open:
            watcher.watch = unless_gone(lambda: self.store.watch(CONFIG_MAPS, *watcher.selection, str(watcher.since)))
            assert (watcher.watch is None) == (watcher.since < self.forgotten)
            if watcher.watch is None:
                self.list_again(watcher)
                return
            if not watcher.state:
                watcher.state = dict(self.at(watcher.since, watcher.selection))
            self.open.append(watcher.watch)
        expected = self.events(watcher.selection, watcher.since)
        seen = self.tell(watcher, watcher.watch.events())
        if watcher.watch.overflowed:  # it has lagged behind: nothing is left out before the end
            assert seen == expected[: len(seen)]
            assert len(seen) >= min(len(expected), LAG)
            watcher.watch = None
            watcher.since = seen[-1][2]
        else:
            assert seen == expected
            watcher.since = self.store.revision
            assert sorted(watcher.state.items()) == self.at(watcher.since, watcher.selection)

    def list_again(self, watcher):
        found = self.store.entries(CONFIG_MAPS, *watcher.selection)
        watcher.since = self.store.revision
        watcher.state = {entry.place: entry.revision for entry in found}
        watcher.watch = None
        assert sorted(watcher.state.items()) == self.at(watcher.since, watcher.selection)

    def tell(self, watcher, events):
        """Let the watcher know; what it has been told as the model says it."""
        told = []
        for event in events:
            meta = event.object["metadata"]
            place, revision = (meta["namespace"], meta["name"]), int(meta["resourceVersion"])
            told.append((event.type, place, revision))
            if event.type == "DELETED":
                del watcher.state[place]  # which it knows
            else:
                assert (place in watcher.state) == (event.type == "MODIFIED")
                watcher.state[place] = revision
        return told

    @rule(watcher=consumes(watchers))
    def close(self, watcher):
        if watcher.watch in self.open:
            watcher.watch.close()
            self.open.remove(watcher.watch)

    @rule(selection=selections, back=st.integers(0, 2 * HISTORY), with_initial=st.booleans())
    def watch_for_a_moment(self, selection, back, with_initial):
        """A watch by the transport, up to its end: initial events and their bookmark, changes, the last bookmark."""
        since = 0 if with_initial else max(1, self.store.revision - back)
        lines = unless_gone(lambda: asyncio.run(self.streamed(selection, since)))
        assert (lines is None) == (not with_initial and since < self.forgotten)
        if lines is None:
            return
        *told, end = [(line["type"], line["object"]["metadata"]) for line in lines]
        if with_initial:
            kind, meta = told.pop()
            assert (kind, meta["annotations"]) == ("BOOKMARK", {INITIAL_EVENTS_END: "true"})
            expected = [("ADDED", place, seen) for place, seen in self.at(self.store.revision, selection)]
        else:
            expected = self.events(selection, since)
        assert (end[0], end[1]["resourceVersion"]) == ("BOOKMARK", str(self.store.revision))
        assert [
            (kind, (meta["namespace"], meta["name"]), int(meta["resourceVersion"])) for kind, meta in told
        ] == expected

    async def streamed(self, selection, since):
        watch = self.transport.watch(
            RESOURCE,
            namespace=selection.namespace,
            label_selector=selection.labels,
            field_selector=selection.fields,
            resource_version=str(since) if since else "",
            send_initial_events=not since,
            timeout_s=0,
        )
        return [json.loads(line) async for line in watch]

    # --- lists ---------------------------------------------------------------------------------------------------

    @rule(target=lists, selection=selections, back=st.integers(0, 2 * HISTORY), limit=st.integers(1, 3))
    def begin_pages(self, selection, back, limit):
        revision = max(1, self.store.revision - back)
        return self.page(Pages(selection, "", revision, None), limit)

    @rule(target=lists, pages=consumes(lists), limit=st.integers(1, 3))
    def next_page(self, pages, limit):
        return self.page(pages, limit)

    def page(self, pages, limit):
        """Read one page, which shows the objects that come next at the revision of the whole list."""
        query = {"limit": str(limit), "labelSelector": pages.selection.labels, "fieldSelector": pages.selection.fields}
        query |= {"continue": pages.token} if pages.token else {"resourceVersion": str(pages.revision)}
        namespace = pages.selection.namespace
        page = unless_gone(lambda: Listing(self.store, CONFIG_MAPS, namespace, list_options(query)).whole())
        assert (page is None) == (pages.revision < self.forgotten)
        if page is None:
            return multiple()
        rest = self.at(pages.revision, pages.selection) if pages.rest is None else pages.rest
        assert page.revision == pages.revision
        assert [(entry.place, entry.revision) for entry in page.entries] == rest[:limit]
        assert bool(page.continue_token) == (len(rest) > limit)
        if not page.continue_token:
            return multiple()
        return Pages(pages.selection, page.continue_token, pages.revision, rest[limit:])

    @rule(selection=selections)
    def list(self, selection):
        found = self.store.entries(CONFIG_MAPS, *selection)
        assert [(entry.place, entry.revision) for entry in found] == self.at(self.store.revision, selection)

    @invariant()
    def the_present_is_what_was_written(self):
        for place, (colour, revision) in self.now.items():
            meta = self.store.get(CONFIG_MAPS, *place)["metadata"]
            assert (meta["resourceVersion"], meta.get("labels", {}).get("colour", "")) == (str(revision), colour)
        assert len(self.store.objects(CONFIG_MAPS)) == len(self.now)


TestListAndWatch = ListAndWatch.TestCase
TestListAndWatch.settings = settings(max_examples=examples(45), stateful_step_count=80)
