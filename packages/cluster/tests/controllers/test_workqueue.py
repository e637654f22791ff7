"""The work queue: order, duplicates, delays, back-off."""

from berth_cluster.controllers.workqueue import WorkQueue


def drain(queue, now_s):
    keys = []
    while (key := queue.pop(now_s)) is not None:
        keys.append(key)
    return keys


def test_keys_come_out_once_and_in_order():
    queue = WorkQueue()
    for key in ("a", "b", "a", "c"):
        queue.add(key)
    assert queue.ready_count(0.0) == 3
    assert drain(queue, 0.0) == ["a", "b", "c"]
    queue.add("a")
    assert drain(queue, 0.0) == ["a"]


def test_delayed_keys_come_when_due_and_the_earliest_time_holds():
    queue = WorkQueue()
    queue.add_at("a", 10.0)
    queue.add_at("b", 5.0)
    queue.add_at("a", 3.0)
    queue.add_at("a", 20.0)
    assert queue.next_deadline() == 3.0
    assert drain(queue, 2.9) == []
    assert drain(queue, 3.0) == ["a"]
    assert queue.next_deadline() == 5.0
    assert drain(queue, 100.0) == ["b"]
    assert queue.next_deadline() is None


def test_something_to_do_at_once_is_a_deadline_of_zero():
    queue = WorkQueue()
    queue.add("a")
    queue.add_at("b", 5.0)
    assert queue.next_deadline() == 0.0


def test_failures_wait_longer_each_time_until_one_goes_well():
    queue = WorkQueue()
    delays = [queue.retry("a", 0.0) for _ in range(4)]
    assert delays == [0.005, 0.01, 0.02, 0.04]
    assert [queue.retry("a", 0.0) for _ in range(20)][-1] == 30.0
    queue.forget("a")
    assert queue.retry("a", 0.0) == 0.005
