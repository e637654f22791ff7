"""How long pending pods wait: counted on one's fingers, and on small random clusters against plain arithmetic."""

import random

import msgspec
import pytest

from berth_workbench.planning.ends import DurationsError, read_durations
from berth_workbench.planning.waiting import lasting
from berth_workbench.simulation.changes import ChangeError
from berth_workbench.simulation.steps import Manifests
from berth_workbench.simulation.watch import WorkWatch
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.header import Header
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.traces.trace import JobStarts, durations_of
from packages.workbench.tests.asking import waits_of
from packages.workbench.tests.planning.test_survival import node, pod
from tests.effort import examples

WORLDS = examples(90)
NOW = "2026-01-01T12:00:00Z"


def running(name, on, cpu="4", started="2026-01-01T11:00:00Z", deadline=None, **options):
    made = pod(name, on, cpu, **options).document
    made["status"] = {"startTime": started, "phase": "Running"}
    if deadline is not None:
        made["spec"]["activeDeadlineSeconds"] = deadline
    return made


def waits(objects, *names, **options):
    made = [each if isinstance(each, dict) else each.document for each in objects]
    documents = [Document(each["kind"], msgspec.json.encode(each), "test") for each in made]
    return waits_of(Snapshot(documents, Header(taken=NOW)), names, **options)


def job(name, deadline, started="2026-01-01T11:00:00Z"):
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"activeDeadlineSeconds": deadline, "template": {"spec": {"containers": []}}},
    }
    return made | ({"status": {"startTime": started}} if started else {})


def test_a_deadline_is_the_latest_moment():
    objects = [node("n1"), running("w1", "n1", deadline=4000), pod("new", cpu="1")]
    (found,) = waits(objects).pods
    assert (found.pod, found.seconds, found.at, found.node) == ("default/new", 400, "2026-01-01T12:06:40Z", "n1")
    assert found.is_bound
    assert [(each.pod, each.by) for each in found.waits_for] == [("default/w1", "podDeadline")]
    assert "Insufficient cpu" in found.message


@pytest.mark.parametrize(("started", "seconds"), [("2026-01-01T11:00:00Z", 1400), ("", 4600)])
def test_a_jobs_deadline_counts_from_its_own_start_or_its_pods(started, seconds):
    """Without a start of the Job's own, that of its pod counts, which is 400 s before the Job's elsewhere."""
    made = running("w1", "n1", owner="", started="2026-01-01T11:00:00Z")
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}
    ]
    deadline = 5000 if started else 8200
    (found,) = waits([node("n1"), made, job("train", deadline, started), pod("new")]).pods
    assert found.seconds == seconds and found.waits_for[0].by == "jobDeadline"


def test_durations_are_expected_and_no_bound():
    objects = [node("n1"), running("w1", "n1", owner="train"), pod("new")]
    found = waits(objects, durations={"default/train": 3660.0})
    assert [(each.seconds, each.is_bound) for each in found.pods] == [(60, False)]
    assert (found.ends_known, found.without_end) == (1, 0)
    overdue = waits(objects, durations={"default/train": 60.0})
    assert [(each.seconds, each.at) for each in overdue.pods] == [(None, None)]
    assert (overdue.ends_known, overdue.without_end) == (0, 1)


def test_a_cron_jobs_pods_run_as_long_as_the_cron_job_says():
    made = running("w1", "n1", owner="backup-28391234")
    (found,) = waits([node("n1"), made, pod("new")], durations={"default/backup": 3700.0}).pods
    assert found.seconds == 100


def test_who_is_ahead_takes_the_room_and_ends_in_turn():
    objects = [node("n1"), running("w1", "n1", deadline=3700)]
    objects += [pod("low", cpu="4", owner="x").priority(1), pod("high", cpu="4", owner="y").priority(2)]
    for each in objects[2:]:
        each.set_spec(preemptionPolicy="Never")
    found = waits(objects, durations={"default/y": 50.0})
    assert [(each.pod, each.seconds, each.ahead) for each in found.pods] == [
        ("default/high", 100, ()),
        ("default/low", 150, ("default/high",)),
    ]
    assert [each.pod for each in found.pods[1].waits_for] == ["default/w1", "default/high"]


def test_looking_no_further_than_asked():
    objects = [node("n1"), running("w1", "n1", deadline=4000), pod("new")]
    (found,) = waits(objects, within_s=399.0).pods
    assert found.seconds is None


def test_a_pod_that_fits_waits_not_at_all_and_others_cannot_be_asked_about():
    objects = [node("n1"), running("w1", "n1", "1"), pod("new")]
    assert [(each.pod, each.seconds) for each in waits(objects, "default/new").pods] == [("default/new", 0)]
    with pytest.raises(ChangeError, match="runs on n1"):
        waits(objects, "default/w1")
    with pytest.raises(ChangeError, match="is not there"):
        waits(objects, "default/nobody")


def test_durations_of_files_and_traces():
    assert read_durations({"a/b": 3}) == {"a/b": 3.0}
    for wrong in ({"b": 3}, {"a/b": -1}, {"a/b": "long"}, [1]):
        with pytest.raises(DurationsError, match="seconds by namespace/name"):
            read_durations(wrong)
    assert durations_of([JobStarts(at=0, name="j", runs=(3.0, 9.0))]) == {"default/j": 9.0}


def going(name, on, at, cpu="4"):
    made = running(name, on, cpu, owner="old")
    made["metadata"]["deletionTimestamp"] = at
    return made


def of_job(made, name="train"):
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "j", "controller": True}
    ]
    return made


def test_a_deadline_in_a_manifest_that_is_applied_before_counts_too():
    short, later = pod("short", cpu="4").priority(5).document, pod("later", cpu="4").document
    short["spec"]["activeDeadlineSeconds"] = 60
    documents = [Document("Pod", msgspec.json.encode(each), "test") for each in (short, later)]
    (found,) = waits([node("n1")], "default/later", steps=[Manifests(documents, "apply")]).pods
    assert (found.seconds, found.waits_for[0].pod, found.waits_for[0].by) == (60, "default/short", "podDeadline")


def test_a_pod_that_is_being_deleted_leaves_room_when_its_grace_period_ends():
    """The timestamp has the grace period in it; afterwards the kubelet kills the pod."""
    objects = [node("n1"), going("old", "n1", "2026-01-01T12:00:30Z"), pod("new")]
    (found,) = waits(objects).pods
    assert (found.seconds, found.is_bound, found.outlook) == (30, True, "placed")
    assert [(each.pod, each.by) for each in found.waits_for] == [("default/old", "deletion")]
    assert waits([node("n1"), going("old", "n1", "2026-01-01T11:59:50Z"), pod("new")]).pods[0].seconds == 0


def test_when_a_pod_goes_that_should_be_gone_for_long_nobody_knows():
    found = waits([node("n1"), going("stuck", "n1", "2026-01-01T11:00:00Z"), pod("new")])
    assert [(each.seconds, each.outlook) for each in found.pods] == [(None, "unknown")]
    assert (found.ends_known, found.without_end) == (0, 1)


def test_a_deadline_that_has_passed_elsewhere_makes_no_bound():
    here = pod("new").node_selector({"kubernetes.io/hostname": "n2"})
    objects = [node("n1"), node("n2"), running("a", "n1", deadline=3610), running("b", "n2", owner="b"), here]
    (found,) = waits(objects, durations={"default/b": 3620.0}).pods
    assert (found.seconds, found.is_bound) == (20, False)


def test_a_deadline_on_the_same_node_makes_no_bound_where_the_room_is_not_needed():
    objects = [
        node("n1"),
        running("small", "n1", "1", deadline=3610),
        running("b", "n1", "3", owner="b"),
        pod("new", cpu="3"),
    ]
    (found,) = waits(objects, durations={"default/b": 3620.0}).pods
    assert (found.seconds, found.is_bound) == (20, False)


def test_a_place_that_is_free_only_since_another_took_what_a_deadline_left_is_bound():
    """Both want n2; the one that comes first has n1 since the pod there had to end."""
    objects = [node("n1"), node("n2"), running("a", "n1", deadline=3610), running("b", "n2", owner="b")]
    objects += [pod("first", cpu="4", owner="x").priority(1, "Never")]
    objects += [pod("second", cpu="4", owner="y").node_selector({"kubernetes.io/hostname": "n2"})]
    found = waits(objects, durations={"default/b": 3620.0}).pods
    assert [(each.pod, each.seconds, each.is_bound) for each in found] == [
        ("default/first", 10, True),
        ("default/second", 20, True),
    ]


def test_a_pending_pod_of_a_job_is_gone_when_the_job_fails():
    objects = [node("n1"), of_job(running("train-0", "n1")), of_job(pod("train-1", cpu="4").document)]
    objects += [pod("other", cpu="4", owner="other"), job("train", 4200)]
    other, train = waits(objects).pods
    assert (other.pod, other.seconds, other.ahead) == ("default/other", 600, ())
    assert (train.pod, train.seconds, train.outlook) == ("default/train-1", None, "never")
    assert "its Job fails at 2026-01-01T12:10:00Z" in train.because


def test_a_job_that_has_no_start_yet_begins_with_the_first_of_its_pods():
    objects = [node("n1"), node("n2"), job("train", 3700, started="")]
    objects += [of_job(running("train-0", "n1")), of_job(running("train-1", "n2", started="2026-01-01T11:30:00Z"))]
    first, second = waits([*objects, pod("x", cpu="4"), pod("y", cpu="4")]).pods
    assert (first.seconds, second.seconds) == (100, 100)


def test_where_no_end_would_ever_help_it_says_so():
    objects = [node("n1"), running("w1", "n1", deadline=4000), pod("huge", cpu="9", owner="h")]
    (found,) = waits(objects).pods
    assert found.outlook == "never" and "no node takes it, whoever ends: 0/1 nodes" in found.because


def test_a_pod_that_wants_to_be_near_others_is_not_told_that_nothing_helps():
    """It fits on an empty node but for the pods that it wants beside it, and those run."""
    objects = [node("n1"), running("db", "n1", "1", owner="db"), running("w1", "n1", "3", owner="w")]
    objects.append(pod("near", cpu="2").pod_affinity("kubernetes.io/hostname", {"app": "db"}))
    (found,) = waits(objects).pods
    assert (found.outlook, found.because) == ("unknown", "")


def test_what_holds_a_pod_is_told():
    (found,) = waits([node("n1"), pod("gated").gate("approval")]).pods
    assert (found.outlook, found.because) == ("held", "waits for its scheduling gates: approval")


def test_who_had_no_place_yet_when_it_was_stopped_may_still_get_one():
    objects = [node("n1"), running("w1", "n1", deadline=4000), pod("new"), pod("huge", cpu="9", owner="h")]

    class AtTheFirstEnd(WorkWatch):
        def begin(self, doing, total=None):
            if doing == "ending pods":
                self.stop()

    found = waits(objects, watch=AtTheFirstEnd())
    assert not found.is_complete
    assert [each.outlook for each in found.pods] == ["stopped", "stopped"]


def test_durations_are_told_in_words():
    assert [lasting(each) for each in (7 * 86_400, 4000, 90_061, 30.4, 0.2)] == [
        "7 days",
        "1 h 6 min 40 s",
        "1 day 1 h 1 min 1 s",
        "30 s",
        "0 s",
    ]


# -- against arithmetic ----------------------------------------------------------------------------------------------


def test_one_pod_waits_until_some_node_has_room():
    waited = 0
    for seed in range(WORLDS):
        rng = random.Random(seed)
        objects, rooms = [], {}
        for number in range(rng.randrange(1, 5)):
            cpu = rng.randrange(3, 9)
            name = f"n{number}"
            objects.append(node(name, cpu=str(cpu)))
            rooms[name] = (cpu, [])
            while sum(size for size, _ in rooms[name][1]) < cpu and rng.random() < 0.9:
                size = rng.randrange(1, cpu - sum(size for size, _ in rooms[name][1]) + 1)
                end = rng.choice([None, *range(0, 3600, 60)])
                rooms[name][1].append((size, end))
                made = f"p{number}-{len(rooms[name][1])}"
                objects.append(running(made, name, str(size), deadline=None if end is None else 3600 + end))
        size = rng.randrange(1, 7)
        (found,) = waits([*objects, pod("new", cpu=str(size))]).pods
        moments = []
        for cpu, there in rooms.values():
            for moment in sorted({0, *(end for _, end in there if end is not None)}):
                left = cpu - sum(each for each, end in there if end is None or end > moment)
                # What ends at this very moment is there until then.
                if moment == 0:
                    left = cpu - sum(each for each, _ in there)
                    ended = cpu - sum(each for each, end in there if end != 0)
                    left = max(left, ended)
                if left >= size:
                    moments.append(moment)
                    break
        expected = min(moments, default=None)
        assert found.seconds == expected, f"seed {seed}"
        waited += bool(expected)
    assert waited > WORLDS / 4


def test_a_queue_for_one_node_in_the_order_of_priority():
    """Each has a priority of its own and none preempts, so that the order is certain; ends are a minute apart."""
    for seed in range(WORLDS):
        rng = random.Random(seed)
        cpu = rng.randrange(3, 9)
        objects, ends, free = [node("n0", cpu=str(cpu))], [], cpu
        for number in range(5):
            size = min(rng.randrange(1, 4), free)
            if size:
                free -= size
                ends.append((60 * rng.randrange(1, 9), size))
                objects.append(running(f"p{number}", "n0", str(size), deadline=3600 + ends[-1][0]))
        queue = []
        for priority in range(rng.randrange(1, 6)):
            size, runs = rng.randrange(1, cpu + 2), 60 * rng.randrange(1, 9)
            queue.append((priority, f"default/q{priority}", size, runs))
            made = pod(f"q{priority}", cpu=str(size), owner=f"o{priority}").priority(priority)
            objects.append(made.set_spec(preemptionPolicy="Never"))
        found = waits(objects, durations={f"default/o{priority}": float(runs) for priority, _, _, runs in queue})
        expected, now = {}, 0
        waiting = sorted(queue, reverse=True)
        while True:
            for each in list(waiting):
                if each[2] <= free:
                    free -= each[2]
                    expected[each[1]] = now
                    ends.append((now + each[3], each[2]))
                    waiting.remove(each)
            if not waiting or not ends:
                break
            now = min(ends)[0]
            free += sum(size for end, size in ends if end == now)
            ends = [each for each in ends if each[0] != now]
        told = {each.pod: each.seconds for each in found.pods}
        assert told == {name: expected.get(name) for _, name, _, _ in queue}, f"seed {seed}"
