"""Kept columns equal fresh ones; snapshots stay what they were."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod, make_service
from berth.engine.memo import ENTRY_BYTES, SLOTS_AT_MOST, DependencySet, MemoKey, Memos, Slot, Slots, SlotSet
from berth.engine.memo_entry import JOURNAL_AT_MOST, MemoEntry
from berth.engine.sums import UNRANKED, Sums
from berth.framework.cycle_state import CycleState
from berth.framework.promises import Dependency, Objects
from berth.state.cache import Cache
from berth.state.objects import ObjectStore
from tests.effort import examples

ON_NODE = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE})
BY_NODE = frozenset({Dependency.NODE})


def node(name, cpu="4", disk="ssd"):
    return make_node(name).capacity(cpu=cpu, memory="1Gi").label("disk", disk).build()


def pod(name, on, cpu="100m"):
    return make_pod(name).request(cpu=cpu).node(on).info()


class Asking:
    """A plugin's runner over a cache; it can be asked about single rows where it is told so."""

    row_form = None

    def __init__(self, kept):
        self.kept = kept

    def compute(self, extra, state, pod, table):
        return self.kept.requested

    def note(self, extra, value):
        self.noted = value

    def lasts(self, extra):
        return True


class Kept:
    """A cache of nodes, the memos over it, and plugins' columns that count how often they are computed."""

    def __init__(self, nodes=8, **options):
        self.cache, self.objects = Cache(capacity=nodes), ObjectStore()
        for index in range(nodes):
            self.cache.put_node(node(f"n{index}"))
        self.memos = Memos(self.cache, self.objects, **options)
        self.computed_rows = []
        self.asked = set()

    def requested(self, rows):
        table = self.cache.table
        self.computed_rows.append(len(np.arange(table.capacity)[rows]))
        return table.requested[0, rows].copy(), "extra"

    def entry(self, dependencies=ON_NODE, key="k", compute=None):
        """Ask for a column; the first time twice, since it is kept from the second time on."""
        args = MemoKey(key), DependencySet(dependencies, "Plugin"), compute or self.requested
        if key not in self.asked:
            self.asked.add(key)
            self.memos.entry(*args)
            self.computed_rows.clear()
        return self.memos.entry(*args)


def test_only_rows_that_changed_are_computed_again():
    kept = Kept()
    kept.entry()
    kept.entry()
    kept.cache.add_pod(pod("a", "n3"))
    row = kept.cache.table.row_of["n3"]
    assert kept.entry().column[row] == 100
    kept.cache.put_node(node("n5", "8"))
    kept.entry()
    assert kept.computed_rows == [8, 1, 1]


def test_where_many_rows_changed_all_are_computed_again():
    kept = Kept()
    kept.entry()
    for index in range(3):
        kept.cache.add_pod(pod(f"p{index}", f"n{index}"))
    assert kept.entry().column.sum() == 300
    assert kept.computed_rows == [8, 8]


def change_pod(kept):
    kept.cache.add_pod(pod("a", "n0"))


def change_node(kept):
    kept.cache.put_node(node("n0", "8"))


def change_service(kept):
    kept.objects.put("Service", make_service("s", {"app": "web"}))


def change_namespace(kept):
    kept.cache.set_namespace("default", {"env": "prod"})


def change_reservation(kept):
    kept.memos.note_reservation("Plugin")


def change_other_reservation(kept):
    kept.memos.note_reservation("Another")


def grow(kept):
    for index in range(20):
        kept.cache.put_node(node(f"new{index}"))


CHANGES = (
    change_pod,
    change_node,
    change_service,
    change_namespace,
    change_reservation,
    change_other_reservation,
    grow,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(
    ("dependencies", "affected_by"),
    [
        (frozenset(), {grow, change_node}),
        (BY_NODE, {grow, change_node}),
        (ON_NODE, {grow, change_node, change_pod}),
        (BY_NODE | {Dependency.PODS_ANYWHERE}, {grow, change_node, change_pod, change_namespace}),
        (BY_NODE | {Dependency.ALL_NODES}, {grow, change_node}),
        (BY_NODE | {Objects(("Service",))}, {grow, change_node, change_service}),
        (BY_NODE | {Dependency.OWN_RESERVATIONS}, {grow, change_node, change_reservation}),
        (frozenset({Dependency.UNKNOWN}), set(CHANGES)),
        (frozenset({Dependency.FEASIBLE_SET}), set(CHANGES)),
    ],
    ids=["nothing", "node", "pods on node", "pods anywhere", "all nodes", "objects", "reservations", "unknown", "set"],
)
def test_what_makes_a_column_stale_is_what_its_plugin_declared(dependencies, affected_by, change):
    kept = Kept()
    kept.entry(dependencies)
    change(kept)
    kept.entry(dependencies)
    assert (len(kept.computed_rows) > 1) == (change in affected_by)


@pytest.mark.parametrize("options", [{"enabled": False}, {}], ids=["off", "no key"])
def test_what_is_not_kept_is_computed_each_time(options):
    kept = Kept(**options)
    for _ in range(3):
        kept.memos.entry(None if not options else MemoKey("k"), DependencySet(ON_NODE, "P"), kept.requested)
    assert (kept.computed_rows, len(kept.memos)) == ([8, 8, 8], 0)


def test_the_least_recently_used_column_goes_when_there_is_no_room():
    kept, slots = Kept(max_bytes=3 * (ENTRY_BYTES + 8 * 8)), {}
    for key in ("a", "b", "c", "a", "d"):
        slots[key] = slots.get(key) or Slot(Asking(kept), MemoKey(key), DependencySet(ON_NODE, "Plugin"))
        for _ in range(2):  # the first time it is only noted
            kept.memos.refresh([slots[key]], CycleState(), make_pod().info())
    assert 1 < len(kept.memos) <= 3
    kept.computed_rows.clear()
    kept.memos.refresh([slots["a"]], CycleState(), make_pod().info())
    assert kept.computed_rows == []
    kept.memos.refresh([slots["b"]], CycleState(), make_pod().info())
    assert kept.computed_rows == [8]


def test_the_columns_of_a_plan_that_is_asked_for_are_those_used_last():
    """Though nobody looks at them one by one while no node changes."""
    kept = Kept(max_bytes=3 * (ENTRY_BYTES + 8 * 8))
    plan = SlotSet([Slot(Asking(kept), MemoKey("plan"), DependencySet(BY_NODE, "Plugin"))])
    other = Slot(Asking(kept), MemoKey("other"), DependencySet(BY_NODE, "Plugin"))
    for _ in range(3):
        kept.memos.refresh_set(plan, CycleState(), make_pod().info())
        kept.memos.refresh([other], CycleState(), make_pod().info())
    kept.entry(BY_NODE, "third")
    kept.memos.refresh_set(plan, CycleState(), make_pod().info())
    kept.entry(BY_NODE, "one too many")
    assert plan.entries[0].is_kept and not other.entry.is_kept


def test_a_column_is_kept_from_the_second_time_it_is_asked_for():
    kept = Kept()
    first, second, third = (
        kept.memos.entry(MemoKey("k"), DependencySet(ON_NODE, "Plugin"), kept.requested) for _ in range(3)
    )
    assert (first.is_kept, second.is_kept, third is second) == (False, True, True)
    assert kept.computed_rows == [8, 8]


def test_who_holds_a_slot_does_not_hold_the_memory_of_a_column_that_was_dropped():
    kept = Kept()
    slot = Slot(Asking(kept), MemoKey("k"), DependencySet(ON_NODE, "Plugin"))
    for _ in range(2):
        kept.memos.refresh([slot], CycleState(), make_pod().info())
    assert slot.entry is not None and len(slot.entry.column) == 8
    kept.memos.clear()
    assert len(slot.entry.column) == 0
    [again] = kept.memos.refresh([slot], CycleState(), make_pod().info())
    assert len(again.column) == 8


def test_with_memos_off_a_slot_is_computed_afresh_whatever_it_held():
    kept = Kept()
    slot = Slot(Asking(kept), MemoKey("k"), DependencySet(ON_NODE, "Plugin"))
    for _ in range(2):
        kept.memos.refresh([slot], CycleState(), make_pod().info())
    kept.memos.enabled = False
    kept.memos.refresh([slot], CycleState(), make_pod().info())
    assert kept.computed_rows == [8, 8, 8]


class Signed:
    """A plugin that reads the pod's labels, and nothing else of it."""

    @staticmethod
    def signature(pod):
        return pod.label_key


def test_pods_of_which_a_plugin_reads_the_same_share_a_slot_and_one_made_again_finds_the_column():
    kept = Kept()
    slots = Slots(Asking(kept), ("Plugin", "filter"), Signed, DependencySet(ON_NODE, "Plugin"))
    small, large, other = (
        make_pod().label("app", app).request(cpu=cpu).info() for app, cpu in (("a", "1"), ("a", "2"), ("b", "1"))
    )
    first = slots.of("profile", small)
    assert slots.of("profile", large) is first
    assert slots.of("profile", other) is not first
    for _ in range(2):
        kept.memos.refresh([first], CycleState(), small)
    for number in range(SLOTS_AT_MOST):
        slots.of("profile", make_pod().label("app", str(number)).info())
    again = slots.of("profile", small)
    assert again is not first
    kept.memos.refresh([again], CycleState(), small)
    assert (again.entry, kept.computed_rows) == (first.entry, [8, 8])


def test_a_plugin_whose_columns_do_not_last_has_a_slot_without_a_key():
    slots = Slots(Asking(Kept()), ("Plugin", "filter"), Signed, DependencySet(frozenset(), "Plugin"))
    assert slots.of("profile", make_pod().info()).key is not None
    anywhere = DependencySet(frozenset({Dependency.PODS_ANYWHERE}), "Plugin")
    assert Slots(Asking(Kept()), ("Plugin", "filter"), Signed, anywhere).of("profile", make_pod().info()).key is None


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_columns_and_sums_equal_fresh_ones_and_snapshots_stay(seed):
    rng, kept = random.Random(seed), Kept(nodes=24)
    sums, snapshots = Sums(kept.memos), []
    for number in range(80):
        _change_something(rng, kept, number)
        if rng.random() < 0.3:
            continue
        by_pods, by_node = (
            kept.entry(ON_NODE, "pods"),
            kept.entry(BY_NODE, "node", lambda rows: _allocatable(kept, rows)),
        )
        table = kept.cache.table
        assert (by_pods.column == table.requested[0]).all()
        assert (by_node.column == table.allocatable[0]).all()
        snapshots.append((by_pods.snapshot(), by_pods.column.copy()))
        snapshots.append((by_node.snapshot(), by_node.column.copy()))
        entries = [by_pods, by_node]
        mask = sums.passing(MemoKey("passing"), [by_pods])
        assert (mask == (table.valid & (table.requested[0] == 0))).all()
        total = sums.total(MemoKey("total"), entries, [1, 3])
        assert (total == table.requested[0] + 3 * table.allocatable[0]).all()
        ranked = sums.ranked(MemoKey("ranked"), mask, entries, [1, 3])
        assert (ranked.totals == np.where(mask, total, UNRANKED)).all()
        assert list(ranked.best_rows()) == np.flatnonzero(ranked.totals == ranked.totals.max()).tolist()
    for snapshot, before in snapshots:
        assert (snapshot.values() == before).all()


def _allocatable(kept, rows):
    return kept.cache.table.allocatable[0, rows].copy(), None


def _change_something(rng, kept, number):
    name, uid = f"n{rng.randrange(24)}", f"default/p{rng.randrange(10)}"
    act = rng.randrange(6)
    if act <= 2:
        kept.cache.add_pod(pod(uid[8:], name, f"{rng.randrange(1, 9)}00m"))
    elif act == 3:
        kept.cache.remove_pod(uid)
    elif act == 4:
        kept.cache.put_node(node(name, str(rng.randrange(1, 9))))
    elif rng.random() < 0.3:
        kept.cache.remove_node(name)
    elif rng.random() < 0.05:
        kept.cache.put_node(node(f"late{number}"))


@pytest.mark.parametrize("rows_each", [1, 100])
def test_a_journal_is_never_much_larger_than_its_column(rows_each):
    entry, size = MemoEntry(), 400
    entry.set(np.zeros(size, dtype=np.int64), None)
    first = entry.snapshot()
    for number in range(1, 5 * JOURNAL_AT_MOST):
        rows = np.arange(rows_each) + (number * rows_each) % size
        before = entry.snapshot(), entry.column.copy()
        entry.repair(rows, np.full(rows_each, number), None)
        journal = entry.snapshot().journal
        assert len(journal) <= JOURNAL_AT_MOST
        assert sum(len(changed) for changed, _ in journal) <= size
        assert (before[0].values() == before[1]).all()
    assert not first.values().any()


def test_a_pod_on_an_unknown_node_may_make_the_table_grow():
    """No node has changed then, and yet every column is too short."""
    kept = Kept(nodes=2)
    kept.entry(BY_NODE)
    kept.cache.add_pod(pod("a", "unknown"))
    assert len(kept.entry(BY_NODE).column) == kept.cache.table.capacity > 2


def test_few_rows_are_asked_about_one_by_one_and_snapshots_stay():
    kept = Kept()
    asking = Asking(kept)
    asking.row_form = lambda state, pod, table, row: 1000 + row
    slot = Slot(asking, MemoKey("k"), DependencySet(ON_NODE, "Plugin"))
    refresh = lambda: kept.memos.refresh([slot], CycleState(), make_pod().info())[0]  # noqa: E731
    refresh()
    before = refresh().snapshot()
    kept.cache.add_pod(pod("a", "n3"))
    row = kept.cache.table.row_of["n3"]
    after = refresh().snapshot()
    assert (after.values()[row], before.values()[row], asking.noted) == (1000 + row, 0, 1000 + row)
    assert kept.computed_rows == [8, 8]
    for name in ("n0", "n1", "n2"):  # more than a few: by column again
        kept.cache.add_pod(pod(f"on-{name}", name))
    refresh()
    assert kept.computed_rows[-1] == 8


def test_a_column_that_goes_again_for_one_that_comes_after_it_is_there_for_who_asked_for_both():
    kept = Kept(max_bytes=ENTRY_BYTES + 100)
    slots = [Slot(Asking(kept), MemoKey(key), DependencySet(ON_NODE, "Plugin")) for key in "abc"]
    for _ in range(4):
        entries = kept.memos.refresh(slots, CycleState(), make_pod().info())
        assert [len(entry.column) for entry in entries] == [8, 8, 8]
        assert [entry.is_kept for entry in entries].count(True) <= 1


def test_with_memos_off_no_sum_is_kept_whatever_its_key():
    kept = Kept()
    sums, entry = Sums(kept.memos), kept.entry()
    assert sums.passing(MemoKey("p"), [entry]) is sums.passing(MemoKey("p"), [entry])
    with kept.memos.switched(on=False):
        assert sums.passing(MemoKey("p"), [entry]) is not sums.passing(MemoKey("p"), [entry])
