"""What controllers write into PodGroups and ElasticQuotas; expectations from upstream's controllers and their tests."""

import pytest

from berth.testing import make_pod
from berth_plugins.capacity.quota_status import used_of
from berth_plugins.pod_group_status import PodGroupStatus, next_status


def pod(name="p", phase="Running", **requests):
    made = make_pod(name)
    if requests:
        made.request(**requests)
    made.status["phase"] = phase
    return made


def infos(*pods):
    return [each.build() for each in pods]


def test_a_quota_counts_the_pods_that_run():
    running = infos(pod("a", cpu="1", memory="2Gi"), pod("b", cpu="500m"), pod("c", "Pending", cpu="9"))
    assert used_of({"cpu": "2"}, {"cpu": "4", "memory": "8Gi"}, running) == {"cpu": "1500m", "memory": "2Gi"}


def test_what_bounds_name_is_there_and_what_pods_use_besides():
    gpu = pod("a")
    gpu.spec["containers"] = [{"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}]
    assert used_of({"memory": "1Gi"}, None, infos(gpu)) == {"memory": "0", "example.com/gpu": "2"}
    assert used_of(None, None, []) == {}


def test_init_containers_count_where_they_are_larger_and_overhead_never():
    made = pod("a", cpu="100m", memory="1Gi")
    made.spec["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "300m", "memory": "10Mi"}}}]
    made.spec["overhead"] = {"cpu": "1"}
    assert used_of(None, None, infos(made)) == {"cpu": "300m", "memory": "1Gi"}


def pods(running=0, succeeded=0, failed=0, pending=0):
    phases = ["Running"] * running + ["Succeeded"] * succeeded + ["Failed"] * failed + ["Pending"] * pending
    return infos(*(pod(f"p{number}", phase) for number, phase in enumerate(phases)))


@pytest.mark.parametrize(
    ("before", "members", "expected"),
    [
        ("", {"pending": 5}, "Pending"),
        ("Pending", {"pending": 1}, "Pending"),
        ("Pending", {"pending": 2}, "Scheduling"),
        ("Scheduling", {"running": 1, "pending": 1}, "Scheduling"),
        ("Scheduling", {"running": 2}, "Running"),
        ("Scheduling", {"running": 1, "succeeded": 1}, "Running"),
        ("Running", {"running": 1, "failed": 1}, "Failed"),
        ("Running", {"succeeded": 2}, "Finished"),
        ("Running", {"succeeded": 2, "failed": 1}, "Finished"),
        ("Running", {"running": 1}, "Pending"),
        ("Scheduling", {"failed": 1, "pending": 1}, "Scheduling"),
        ("Failed", {"running": 2}, "Failed"),
        ("Finished", {"running": 2}, "Finished"),
    ],
)
def test_the_phase_of_a_group_follows_its_pods(before, members, expected):
    found = next_status(PodGroupStatus(before), 2, pods(**members))
    assert found.phase == expected
    if before in ("Scheduling", "Running"):
        counted = {"running": found.running, "succeeded": found.succeeded, "failed": found.failed}
        assert counted == {"running": 0, "succeeded": 0, "failed": 0} | {
            key: value for key, value in members.items() if key != "pending"
        }


def test_a_group_says_who_occupies_it():
    owned = pod("a")
    owned.document["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Job", "name": name, "uid": name} for name in ("train", "eval")
    ]
    found = next_status(PodGroupStatus("Pending"), 1, infos(owned))
    assert found.occupied_by == "default/eval,default/train"
    assert next_status(PodGroupStatus("Pending"), 0, []) == PodGroupStatus("Scheduling")
