"""What the page of invariants says (docs/memory.md), sentence by sentence, on views that count what they compute.

`tests/engine/remembered` holds all views of an engine against fresh ones, whatever happens.
"""

import random

import numpy as np
import pytest

from berth.core.builders import make_node, make_pod, make_service
from berth.state import views
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import FEW_ROWS, NODES, NOMINATIONS, PODS, VIEW_BYTES, Memory, View


def a_node(name, cpu="4"):
    return make_node(name).capacity(cpu=cpu, pods="10").build()


def a_pod(name, on, cpu="100m"):
    return make_pod(name).request(cpu=cpu).node(on).info()


class Sum(View):
    """By row, the CPU of the node and of its pods and nominated pods, as far as these are followed, and the inputs."""

    __slots__ = ("breaks", "count", "is_lasting", "kinds", "log", "name", "values", "world")

    def __init__(self, world, name="", inputs=(), follows=NODES, kinds=()):
        self.world, self.name, self.kinds, self.breaks, self.is_lasting = world, name, kinds, False, True
        self.values = np.zeros(0, dtype=np.int64)
        super().__init__(inputs, follows)

    def _of(self, row):
        table, nominator = self.world.table, self.world.nominator
        if self.breaks:
            raise ValueError("boom")
        value = table.allocatable.item(0, row)
        if self.follows >= PODS and not self.inputs:
            value += table.requested.item(0, row)
        if self.follows == NOMINATIONS and not self.inputs:
            value += 10_000 * len(nominator.pods_on(table.names[row]))
        value += 100_000 * sum(self.world.objects.version(kind) for kind in self.kinds)
        return value + sum(view.values.item(row) for view in self.inputs)

    def afresh(self):
        return [self._of(row) for row in range(self.world.table.capacity)]

    def counters(self, memory):
        return [memory.version_of(kind) for kind in self.kinds]

    def compute_all(self, memory, asking):
        self.world.worked_out.append((self.name, "all"))
        self.values = np.array(self.afresh())

    def compute_rows(self, memory, asking, rows):
        self.world.worked_out.append((self.name, len(rows.rows)))
        for row in rows.rows:
            self.values[row] = self._of(row)
        return True

    def lasts(self):
        return self.is_lasting and super().lasts()

    def release(self):
        self.values = np.zeros(0, dtype=np.int64)

    def nbytes(self):
        return self.values.nbytes


class World:
    """A cache of sixteen nodes and a memory over it."""

    def __init__(self, nodes=16, **options):
        self.cache, self.objects, self.nominator = Cache(capacity=nodes), ObjectStore(), Nominator()
        for index in range(nodes):
            self.cache.put_node(a_node(f"n{index}"))
        self.memory = Memory(self.cache, self.objects, self.nominator, **options)
        self.worked_out = []

    @property
    def table(self):
        return self.cache.table

    def bring(self, view):
        """Bring a view up to date; return what was worked out for that."""
        self.worked_out.clear()
        self.memory.bring(view)
        return self.worked_out[:]

    def kept(self, name, inputs=(), **options):
        return self.memory.view((name, *inputs), lambda: Sum(self, name, inputs, **options))


CHANGES = {
    "a pod comes": (PODS, lambda world: world.cache.add_pod(a_pod("p", "n3"))),
    "a plugin says that a node is another": (PODS, lambda world: world.cache.touch("n3")),
    "a node changes": (NODES, lambda world: world.cache.put_node(a_node("n3", "8"))),
    "a node goes": (NODES, lambda world: world.cache.remove_node("n3")),
    "a pod is nominated": (NOMINATIONS, lambda world: world.nominator.nominate(make_pod("p").info(), "n3")),
}


@pytest.mark.parametrize("follows", [NODES, PODS, NOMINATIONS])
@pytest.mark.parametrize("change", CHANGES)
def test_the_rows_that_the_followed_logs_name_are_worked_out_and_no_others(change, follows):
    world = World()
    view = Sum(world, "a", follows=follows)
    assert world.bring(view) == [("a", "all")]
    assert world.bring(view) == []
    named_by, happens = CHANGES[change]
    happens(world)
    assert world.bring(view) == ([("a", 1)] if named_by <= follows else [])
    assert world.bring(view) == []


def test_more_rows_than_one_in_four_are_worked_out_as_all():
    world = World()
    view = Sum(world, "a", follows=PODS)
    world.bring(view)
    for many in (4, 5):
        for index in range(many):
            world.cache.add_pod(a_pod(f"p{many}-{index}", f"n{index}"))
        assert world.bring(view) == [("a", many if many == 4 else "all")]


@pytest.mark.parametrize("follows", [NODES, PODS, NOMINATIONS])
def test_more_changes_than_a_log_still_knows_are_worked_out_as_all(follows):
    world = World()
    view = Sum(world, "a", follows=follows)
    world.bring(view)
    for number in range(10_000):
        if follows == NODES:
            world.cache.put_node(a_node("n1", "48"[number % 2]))
        elif follows == PODS:
            world.cache.touch("n1")
        else:
            world.nominator.nominate(make_pod("p").info(), "n1")
    assert world.bring(view) == [("a", "all")]


def test_a_counter_that_has_moved_makes_all_stale_of_what_counts_by_it():
    world = World()
    by_objects, by_rows = Sum(world, "a", kinds=("Service",)), Sum(world, "b")
    world.bring(by_objects), world.bring(by_rows)
    world.objects.put("Service", make_service("s", {}))
    assert (world.bring(by_objects), world.bring(by_rows)) == ([("a", "all")], [])
    world.objects.put("Pod", make_pod("p").build())
    assert world.bring(by_objects) == []


def test_a_table_that_has_grown_for_pods_alone_makes_all_stale():
    world = World(nodes=2)
    view = Sum(world, "a")
    world.bring(view)
    world.cache.add_pod(a_pod("p", "unknown"))
    assert world.bring(view) == [("a", "all")]
    assert len(view.values) == world.table.capacity > 2


def test_inputs_come_first_and_what_is_made_of_one_that_was_computed_as_a_whole_is_computed_as_a_whole():
    world = World()
    by_objects, by_pods = Sum(world, "objects", kinds=("Service",)), Sum(world, "pods", follows=PODS)
    made = Sum(world, "made", [by_objects, by_pods])
    assert world.bring(made) == [("objects", "all"), ("pods", "all"), ("made", "all")]
    world.cache.add_pod(a_pod("p", "n3"))
    assert world.bring(made) == [("pods", 1), ("made", 1)]
    world.objects.put("Service", make_service("s", {}))
    assert world.bring(made) == [("objects", "all"), ("made", "all")]
    assert made.values.tolist() == made.afresh()


def test_an_input_that_somebody_else_has_brought_up_to_date_counts_all_the_same():
    world = World()
    by_objects, by_pods = Sum(world, "objects", kinds=("Service",)), Sum(world, "pods", follows=PODS)
    made = Sum(world, "made", [by_objects, by_pods])
    world.bring(made)
    world.cache.add_pod(a_pod("p", "n3"))
    world.bring(by_pods)
    assert world.bring(made) == [("made", 1)]
    world.objects.put("Service", make_service("s", {}))
    world.bring(by_objects)
    assert world.bring(made) == [("made", "all")]


def test_while_only_pods_come_and_go_what_does_not_follow_them_is_not_even_looked_at():
    world = World()
    steady = Sum(world, "steady")
    made = Sum(world, "made", [steady, Sum(world, "pods", follows=PODS)])
    world.bring(made)
    world.cache.add_pod(a_pod("p", "n3"))
    before, world.memory.turn = steady.used, world.memory.turn + 1
    world.bring(made)
    assert steady.used == before
    world.cache.put_node(a_node("n3", "8"))
    assert world.bring(made) == [("steady", 1), ("pods", 1), ("made", 1)]


@pytest.mark.parametrize("inner", [True, False])
def test_what_raises_stays_stale_and_is_asked_about_the_same_rows_again(inner):
    world = World()
    source = Sum(world, "source", follows=PODS)
    made = Sum(world, "made", [source])
    breaking = source if inner else made
    breaking.breaks = True
    with pytest.raises(ValueError, match="boom"):
        world.bring(made)
    breaking.breaks = False
    assert world.bring(made)[-1] == ("made", "all")
    world.cache.add_pod(a_pod("p", "n3"))
    breaking.breaks = True
    with pytest.raises(ValueError, match="boom"):
        world.bring(made)
    breaking.breaks = False
    assert world.bring(made) == ([("source", 1), ("made", 1)] if inner else [("made", 1)])
    assert made.values.tolist() == made.afresh()


def test_what_does_not_last_is_computed_anew_each_time_and_so_is_what_is_made_of_it():
    world = World()
    source = Sum(world, "source")
    made = Sum(world, "made", [source])
    source.is_lasting = False
    for _ in range(3):
        assert world.bring(made) == [("source", "all"), ("made", "all")]
    assert made.verified == views.NEVER
    source.is_lasting = True
    world.bring(made)
    assert world.bring(made) == []


def test_a_view_may_ask_to_be_computed_as_a_whole_instead():
    world = World()
    view = Sum(world, "a")
    world.bring(view)
    rows = Sum.compute_rows
    Sum.compute_rows = lambda *_: False
    try:
        world.cache.put_node(a_node("n3", "8"))
        assert world.bring(view) == [("a", "all")]
    finally:
        Sum.compute_rows = rows


def test_with_remembering_off_every_view_is_a_new_one():
    world = World(enabled=False)
    assert world.kept("a") is not world.kept("a")
    world.bring(world.kept("a"))
    assert len(world.memory) == 0
    with world.memory.switched(on=True):
        one = world.kept("a")
        world.bring(one)
        assert world.kept("a") is one
    assert world.kept("a") is not one


def asked_twice(world, *names, **options):
    """Ask for views in two turns, so that they are kept as long as there is room."""
    kept = [world.kept(name, **options) for name in names]
    for _ in range(2):
        world.memory.begin_turn()
        for view in kept:
            world.bring(view)
    return kept


def test_what_was_asked_for_least_recently_goes_when_there_is_no_room():
    size = VIEW_BYTES + 16 * 8
    world = World(max_bytes=4 * size)
    a, b, c, d = asked_twice(world, *"abcd")
    world.memory.begin_turn()
    world.bring(a)
    [e] = asked_twice(world, "e")
    world.memory.begin_turn()
    assert [bool(view.held) for view in (a, b, c, d, e)] == [True, False, False, True, True]
    assert world.memory._bytes == 3 * size
    assert (len(b.values), b.epoch, world.bring(b), world.bring(a)) == (0, 0, [("b", "all")], [])
    assert world.kept("b") is b and world.kept("c") is not c


def test_nothing_goes_before_the_next_attempt_begins():
    world = World(max_bytes=0)
    [a] = asked_twice(world, "a")
    assert len(a.values) == 16
    world.memory.begin_turn()
    assert (len(a.values), len(world.memory)) == (0, 0)


def test_what_a_view_that_is_kept_is_made_of_is_kept():
    """Though nobody asks for it while only pods come and go."""
    size = VIEW_BYTES + 16 * 8
    world = World(max_bytes=6 * size)
    steady, moving = world.kept("steady"), world.kept("moving", follows=PODS)
    made = world.kept("made", (steady, moving))
    for number in range(40):
        world.memory.begin_turn()
        world.cache.add_pod(a_pod("p", f"n{number % 16}"))
        world.bring(made)
        world.bring(asked_twice(world, f"other{number}")[0])
        for view in world.memory._kept:
            assert all(source.held for source in view.inputs)
        assert made.held and made.values.tolist() == made.afresh()


def test_what_is_asked_for_once_makes_room_first_and_is_kept_when_it_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(views, "YOUNG_BYTES", 4 * (VIEW_BYTES + 16 * 8))
    world = World()
    [often] = asked_twice(world, "often")
    once = [world.kept(f"once{number}") for number in range(20)]
    for view in once:
        world.memory.begin_turn()
        world.bring(view)
    assert often.held and sum(bool(view.held) for view in once) <= 5
    assert world.kept("once0") is once[0], "it is known that it was asked for"
    world.bring(once[0])
    for number in range(20, 40):
        world.memory.begin_turn()
        world.bring(world.kept(f"once{number}"))
    assert once[0].held


def test_of_what_was_asked_for_once_not_everything_is_known_for_ever(monkeypatch):
    monkeypatch.setattr(views, "YOUNG_BYTES", 0)
    monkeypatch.setattr(views, "KNOWN_AT_MOST", 10)
    world = World()
    for number in range(50):
        world.memory.begin_turn()
        world.bring(world.kept(f"once{number}"))
    assert len(world.memory._views) <= 12


def test_two_views_of_one_key_are_both_right_and_both_may_go():
    """The first was forgotten when the second was made, and somebody still holds it."""
    world = World()
    [one] = asked_twice(world, "a")
    world.memory.clear()
    [other] = asked_twice(world, "a")
    assert one is not other
    world.bring(one)
    world.cache.put_node(a_node("n3", "8"))
    assert world.bring(one) == world.bring(other) == [("a", 1)]
    world.memory.max_bytes = 0
    world.memory.begin_turn()
    assert (one.held, other.held, world.memory._bytes, len(world.memory._views)) == (0, 0, 0, 0)


@pytest.mark.parametrize("case", [*range(3), *(pytest.param(case, marks=pytest.mark.long) for case in range(3, 60))])
def test_whatever_happens_every_view_is_what_a_fresh_one_would_be(case, monkeypatch):
    """With what is kept given up all the time in one life in three, and many rows changed at once as well as few."""
    for seed in range(10 * case, 10 * case + 10):
        live(random.Random(seed), monkeypatch)


def live(lots, monkeypatch):
    monkeypatch.setattr(views, "YOUNG_BYTES", lots.choice((0, 1 << 20)))
    world = World(nodes=lots.choice((8, 40)), max_bytes=lots.choice((0, 4000, 1 << 20)))
    for step in range(120):
        happen(world, lots, step)
        if lots.random() < 0.3:
            continue
        world.memory.begin_turn()
        sources = [world.kept("nodes"), world.kept("pods", follows=PODS), world.kept("objects", kinds=("Service",))]
        sources += [world.kept("nominations", follows=NOMINATIONS)]
        middle = world.kept("middle", tuple(sources[:2]))
        made = [world.kept("one", (middle, sources[2])), world.kept("other", (middle, *sources[2:]))]
        for view in lots.sample([*sources, middle, *made], 3):
            world.memory.bring(view)
            assert view.values.tolist() == view.afresh()


def happen(world, lots, step):
    name = f"n{lots.randrange(40)}"
    for _ in range(lots.choice((1, 1, 1, FEW_ROWS + 2))):
        act = lots.randrange(8)
        if act <= 2:
            world.cache.add_pod(a_pod(f"p{lots.randrange(10)}", name, f"{lots.randrange(1, 9)}00m"))
        elif act == 3:
            world.cache.remove_pod(f"default/p{lots.randrange(10)}")
        elif act == 4:
            world.cache.put_node(a_node(name, str(lots.randrange(1, 9))))
        elif act == 5:
            world.nominator.nominate(make_pod(f"p{lots.randrange(4)}").info(), name)
        elif lots.random() < 0.3:
            world.objects.put("Service", make_service(f"s{step}", {}))
        elif lots.random() < 0.2:
            world.cache.remove_node(name)
        name = f"n{lots.randrange(40)}"
