"""The cache's state machine: every arrow of its diagram, and the transitions it does not have."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.builders import make_node, make_pod
from berth.state.cache import Cache, CacheError, same_for_scheduling
from berth.testing.invariants import check_cache
from tests.effort import examples

TTL_S = 30.0


def pod(node="", cpu="100m"):
    made = make_pod("a").request(cpu=cpu)
    return (made.node(node) if node else made).info()


def cache(ttl_s=None, capacity=4):
    found = Cache(ttl_s, capacity)
    for name in ("n1", "n2"):
        found.put_node(make_node(name).capacity(cpu="4").build())
    return found


UID = "default/a"
STEPS = {
    "assume": lambda found: found.assume(pod(), "n1"),
    "finish": lambda found: found.finish_binding(UID, 100.0),
    "forget": lambda found: found.forget(UID),
    "confirm": lambda found: found.add_pod(pod("n1")),
    "move": lambda found: found.add_pod(pod("n2")),
    "resize": lambda found: found.add_pod(pod("n1", cpu="200m")),
    "remove": lambda found: found.remove_pod(UID),
    "expire": lambda found: found.expire(100.0 + TTL_S),
    "expire early": lambda found: found.expire(100.0 + TTL_S - 0.001),
}


@pytest.mark.parametrize(
    ("steps", "state", "node", "cpu_milli"),
    [
        ("assume", "assumed", "n1", 100),
        ("assume finish", "assumed", "n1", 100),
        ("assume forget", None, None, 0),
        ("assume finish forget", None, None, 0),
        ("assume confirm", "added", "n1", 100),
        ("assume finish confirm", "added", "n1", 100),
        ("assume confirm finish", "added", "n1", 100),
        ("assume confirm finish expire", "added", "n1", 100),
        ("assume move", "added", "n2", 100),
        ("assume resize", "added", "n1", 200),
        ("assume confirm forget", "added", "n1", 100),
        ("assume expire", "assumed", "n1", 100),
        ("assume finish expire", None, None, 0),
        ("assume finish expire,early", "assumed", "n1", 100),
        ("assume finish confirm expire", "added", "n1", 100),
        ("assume remove", None, None, 0),
        ("confirm", "added", "n1", 100),
        ("confirm resize", "added", "n1", 200),
        ("confirm move", "added", "n2", 100),
        ("confirm remove", None, None, 0),
        ("confirm remove assume", "assumed", "n1", 100),
        ("finish", None, None, 0),
        ("forget", None, None, 0),
        ("remove", None, None, 0),
        ("assume finish expire confirm", "added", "n1", 100),
    ],
)
def test_transitions(steps, state, node, cpu_milli):
    found = cache(TTL_S)
    for step in steps.split():
        STEPS[step.replace(",", " ")](found)
        check_cache(found)
    known = found.state_of(UID)
    assert (None if known is None else "assumed" if known.assumed else "added") == state
    assert (None if known is None else found.table.names[known.row]) == node
    assert found.table.requested[0].sum() == cpu_milli
    assert found.assumed_count == (state == "assumed")


@pytest.mark.parametrize("before", ["assume", "confirm"])
def test_what_is_counted_cannot_be_assumed(before):
    found = cache()
    STEPS[before](found)
    with pytest.raises(CacheError, match="pod default/a is in the cache"):
        found.assume(pod(), "n2")
    check_cache(found)


def test_todays_generation_never_expires_anything():
    found = cache(ttl_s=None)
    found.assume(pod(), "n1")
    found.finish_binding(UID, 0.0)
    assert found.next_expiry() is None
    assert found.expire(1e9).pods == []
    assert found.assumed_count == 1


def test_whoever_waits_for_the_next_expiry_finds_it_due():
    found = cache(TTL_S)
    found.assume(pod(), "n1")
    assert found.next_expiry() is None
    found.finish_binding(UID, 5.0)
    due = found.next_expiry()
    assert due == 5.0 + TTL_S
    (expired,) = found.expire(due).pods
    assert (expired.uid, expired.node_name) == (UID, "n1")


def test_an_assumed_pod_is_returned_with_the_node_it_was_counted_on():
    found = cache()
    found.assume(pod(), "n2")
    assert found.remove_pod(UID).node_name == "n2"
    assert found.remove_pod(UID) is None


def test_pods_may_come_before_their_node_and_stay_after_it():
    found = Cache(capacity=2)
    found.add_pod(pod("late"))
    check_cache(found)
    assert (len(found.table), found.table.rows().tolist()) == (0, [])
    row = found.put_node(make_node("late").capacity(cpu="4").build())
    assert found.table.requested[0, row] == 100
    assert found.remove_node("late")
    check_cache(found)
    assert not found.remove_node("unknown")
    assert found.state_of(UID) is not None
    found.remove_pod(UID)
    check_cache(found)
    assert "late" not in found.table.row_of


def test_a_placeholder_may_be_removed_like_a_node():
    found = Cache(capacity=2)
    found.add_pod(pod("late"))
    found.remove_node("late")
    check_cache(found)
    assert found.state_of(UID) is not None


@pytest.mark.parametrize(
    ("new", "same"),
    [
        (make_pod("a").request(cpu="1").node("n1"), True),
        (make_pod("a").request(cpu="1").node("n1").phase("Running"), True),
        (make_pod("a").request(cpu="1").node("n1").annotation("x", "y"), True),
        (make_pod("a").request(cpu="2").node("n1"), False),
        (make_pod("a").request(cpu="1").node("n1").label("x", "y"), False),
        (make_pod("a").request(cpu="1").node("n1").terminating(), False),
        (make_pod("a").request(cpu="1").node("n1").priority(4), False),
    ],
)
def test_which_changes_of_a_pod_are_counted_anew(new, same):
    assert same_for_scheduling(make_pod("a").request(cpu="1").info(), new.info()) is same


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_columns_and_indexes_equal_a_rebuild_whatever_happens(seed):
    rng, found = random.Random(seed), Cache(TTL_S, capacity=2)
    found.table.label("zone"), found.table.images.holders("app:1")
    for number in range(60):
        name, uid = f"n{rng.randrange(7)}", f"default/p{rng.randrange(12)}"
        made = make_pod(uid[8:]).label("app", rng.choice("ab")).request(cpu=f"{rng.randrange(5)}00m", gpu="1")
        act = rng.randrange(8)
        if act <= 1:
            node = make_node(name).capacity(cpu="4", **{f"r{rng.randrange(3)}": "2"}).zone(rng.choice("abc"))
            node.label("zone", rng.choice("xyz")).image("app:1", size_bytes=rng.randrange(1, 9))
            found.put_node((node.taint("t", rng.choice("12")) if rng.random() < 0.3 else node).build())
        elif act == 2:
            found.remove_node(name)
        elif act == 3 and found.state_of(uid) is None:
            found.assume(made.info(), name)
        elif act == 4:
            found.add_pod(made.node(name).info())
        elif act == 5:
            found.forget(uid)
        elif act == 6:
            found.remove_pod(uid)
        else:
            found.finish_binding(uid, float(number))
            found.expire(float(number + rng.choice((0, 40))))
        check_cache(found)
        _check_images(found)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(40), deadline=None)
def test_no_row_is_given_up_twice_whatever_is_lifted_while_nodes_come_and_go(seed):
    """What a what-if does: pods are lifted, nodes put and removed, others assumed, and all is taken back."""
    rng, found = random.Random(seed), Cache(capacity=2)
    pods = [make_pod(f"p{number}").request(cpu="100m") for number in range(8)]
    for _ in range(12):
        for _ in range(6):
            name, made = f"n{rng.randrange(5)}", rng.choice(pods).copy()
            change = rng.randrange(5)
            if change == 0:
                found.put_node(make_node(name).capacity(cpu="4").build())
            elif change == 1:
                found.remove_node(name)
            elif change == 2:
                found.add_pod(made.node(name).info())
            elif change == 3 and found.state_of(made.info().uid) is None:
                found.assume(made.info(), name)
            else:
                found.remove_pod(made.info().uid)
        before = {uid: (found.table.names[state.row], state.assumed) for uid, state in found.states().items()}
        gone, lifted = set(), rng.sample(sorted(before), rng.randrange(len(before) + 1))
        for uid in lifted:
            found.lift(uid)
            check_cache(found)
        extra = [make_pod(f"extra-{number}").info() for number in range(3)]
        nodes = {name: found.table.nodes[row] for name, row in found.table.row_of.items()}
        for number, pod in enumerate(extra):
            found.assume(pod, rng.choice(("n0", "n1", f"new-{number}")))
            name = f"n{rng.randrange(5)}"
            found.put_node(make_node(name).build()) if rng.random() < 0.5 else found.remove_node(name)
            check_cache(found)
        for uid in lifted:
            if before[uid][1] and rng.random() < 0.3:  # the binding failed meanwhile
                found.forget(uid)
                gone.add(uid)
            check_cache(found)
        for pod in extra:
            found.forget(pod.uid)
        for name in {f"n{number}" for number in range(5)}:
            node = nodes.get(name)
            found.remove_node(name) if node is None else found.put_node(node)
        for uid in rng.sample(lifted, len(lifted)):
            found.put_back(uid)
            check_cache(found)
        after = {uid: (found.table.names[state.row], state.assumed) for uid, state in found.states().items()}
        assert after == {uid: where for uid, where in before.items() if uid not in gone}
        rows = {name: row for name, row in found.table.row_of.items() if found.table.nodes[row] is not None}
        assert rows.keys() == {name for name, node in nodes.items() if node is not None}


def _check_images(found):
    nodes = found.table.nodes
    expected = {row: node.status.images[0].size_bytes for row, node in enumerate(nodes) if node is not None}
    holders = found.table.images.holders("app:1")
    assert dict(zip(holders.rows.tolist(), holders.sizes.tolist(), strict=True)) == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_many_pods_at_once_are_counted_as_one_by_one(seed):
    """Nodes may be unknown yet, a uid may come twice, as in manifests that were copied, and the table may grow."""
    lots = random.Random(seed)
    pods = []
    for number in range(lots.randrange(40)):
        made = make_pod(f"p{number}").node(f"n{lots.randrange(9)}").label("app", lots.choice("ab"))
        made.request(cpu=lots.choice(["100m", "1"]), **lots.choice([{}, {"example.com/gpu": "1"}]))
        if lots.random() < 0.3:
            made.pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
        if lots.random() < 0.2:
            made.uid(f"uid-{lots.randrange(4)}")
        pods.append(made.info())
    at_once, one_by_one = cache(), cache()
    at_once.add_pods(pods)
    for each in pods:
        one_by_one.add_pod(each)
    check_cache(at_once)
    assert counts_of(at_once) == counts_of(one_by_one)


def counts_of(found):
    table = found.table
    return {
        name: (
            {resource: int(table.requested[index, row]) for resource, index in table.resource_index.items()},
            table.scoring_requested[:, row].tolist(),
            int(table.pod_count[row]),
            sorted(table.pods[row]),
        )
        for name, row in table.row_of.items()
    } | {"priorities": table.pods_by_priority, "states": sorted(found.states())}


def test_room_is_made_once_and_nothing_grows_until_it_is_used_up():
    cache = Cache(capacity=2)
    cache.put_node(make_node("n0").build())
    cache.make_room(5)
    capacity = cache.table.capacity
    assert capacity >= 6
    for at in range(1, 6):
        cache.put_node(make_node(f"n{at}").build())
    cache.make_room(0)
    assert cache.table.capacity == cache.index.capacity == capacity
