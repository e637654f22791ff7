"""What a pod asks of a node: the documented rules for init containers, sidecars, pod level, overhead and resizes."""

import pytest

from berth.api.pod_resources import (
    CONTAINERS_ONLY,
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    Counting,
    has_pod_level_requests,
    pod_requests,
    pod_requests_for_scoring,
    scoring_requests,
)
from berth.core.builders import PodBuilder, make_pod

MI = 1 << 20


def resized(
    pod: PodBuilder, *, allocated: dict[str, str] | None, in_force: dict[str, str] | None, reason: str = ""
) -> PodBuilder:
    """A pod whose first container has this status, and a PodResizePending condition with that reason, if any."""
    status: dict[str, object] = {"name": "c0"}
    if allocated is not None:
        status["allocatedResources"] = allocated
    if in_force is not None:
        status["resources"] = {"requests": in_force}
    pod.set_status(containerStatuses=[status])
    if reason:
        pod.set_status(conditions=[{"type": "PodResizePending", "status": "True", "reason": reason}])
    return pod


def test_regular_containers_add_up():
    pod = make_pod().request(cpu="2", memory="1G").request(cpu="1", memory="1G").build()
    assert pod_requests(pod) == {"cpu": 3000, "memory": 2 * 10**9}


def test_init_containers_run_alone_so_the_largest_counts():
    # The example that upstream gives beside computePodResourceRequest.
    pod = make_pod().request(cpu="2", memory="1G").request(cpu="1", memory="1G")
    pod.init_container(requests={"cpu": "2", "memory": "1G"}).init_container(requests={"cpu": "2", "memory": "3G"})
    assert pod_requests(pod.build()) == {"cpu": 3000, "memory": 3 * 10**9}


def test_a_sidecar_runs_on_beside_the_regular_containers():
    pod = make_pod().request(cpu="1").init_container(requests={"cpu": "500m"}, sidecar=True)
    assert pod_requests(pod.build()) == {"cpu": 1500}


@pytest.mark.parametrize(
    ("sidecar_first", "cpu_milli"),
    [
        # KEP-753: an init container runs beside the sidecars that were started before it, and only those.
        (True, 2000 + 500),
        (False, 2000),
    ],
)
def test_an_init_container_counts_beside_sidecars_started_before_it(sidecar_first: bool, cpu_milli: int):
    pod = make_pod().request(cpu="1")
    if sidecar_first:
        pod.init_container(requests={"cpu": "500m"}, sidecar=True).init_container(requests={"cpu": "2"})
    else:
        pod.init_container(requests={"cpu": "2"}).init_container(requests={"cpu": "500m"}, sidecar=True)
    assert pod_requests(pod.build()) == {"cpu": cpu_milli}


def test_overhead_is_added_last():
    pod = make_pod().request(cpu="1").init_container(requests={"cpu": "3"}).overhead(cpu="250m", memory="64Mi")
    assert pod_requests(pod.build()) == {"cpu": 3250, "memory": 64 * MI}


def test_sums_are_exact_and_rounded_up_once():
    # Three times a third of a milli-CPU is one milli-CPU, not three.
    pod = make_pod().request(cpu="333333n").request(cpu="333333n").request(cpu="333333n")
    assert pod_requests(pod.build()) == {"cpu": 1}


def test_no_containers_ask_for_nothing():
    assert pod_requests(make_pod().build()) == {}
    assert pod_requests_for_scoring(make_pod().build()) == {}


class TestPodLevel:
    """spec.resources, KEP-2837."""

    def test_it_replaces_what_containers_ask_for(self):
        pod = make_pod().request(cpu="3", memory="1Gi").pod_level(cpu="1").overhead(cpu="100m")
        assert pod_requests(pod.build()) == {"cpu": 1100, "memory": 1024 * MI}

    def test_huge_pages_may_be_set_and_other_resources_may_not(self):
        pod = make_pod().request({"example.com/gpu": "1"}).pod_level({"hugepages-2Mi": "4Mi", "example.com/gpu": "7"})
        assert pod_requests(pod.build()) == {"hugepages-2Mi": 4 * MI, "example.com/gpu": 1}

    def test_it_does_not_count_where_switched_off(self):
        pod = make_pod().request(cpu="3").pod_level(cpu="1").build()
        assert pod_requests(pod, CONTAINERS_ONLY) == {"cpu": 3000}

    @pytest.mark.parametrize(
        ("requests", "expected"),
        [({"cpu": "1"}, True), ({"hugepages-1Gi": "1Gi"}, True), ({"example.com/gpu": "1"}, False), ({}, False)],
    )
    def test_which_requests_make_a_pod_level(self, requests: dict[str, str], expected: bool):
        assert has_pod_level_requests(make_pod().pod_level(requests).build()) is expected

    def test_a_resize_under_way_counts_the_most_of_what_the_pod_level_names(self):
        pod = make_pod().request(cpu="1", memory="1Gi").pod_level(cpu="1")
        pod.set_status(resources={"requests": {"cpu": "3", "memory": "9Gi"}}, allocatedResources={"cpu": "2"})
        assert pod_requests(pod.build()) == {"cpu": 3000, "memory": 1024 * MI}
        assert pod_requests(pod.build(), use_status=False) == {"cpu": 1000, "memory": 1024 * MI}

    def test_a_resize_under_way_does_not_count_where_such_resizes_are_switched_off(self):
        pod = make_pod().pod_level(cpu="1")
        pod.set_status(resources={"requests": {"cpu": "3"}}, allocatedResources={"cpu": "2"})
        assert pod_requests(pod.build(), Counting(pod_level_resizes=False)) == {"cpu": 1000}

    def test_an_infeasible_resize_leaves_what_is_held(self):
        pod = make_pod().pod_level(cpu="8")
        pod.set_status(
            resources={"requests": {"cpu": "1"}},
            allocatedResources={"cpu": "2"},
            conditions=[{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        )
        assert pod_requests(pod.build()) == {"cpu": 2000}


class TestResize:
    """In-place resize, KEP-1287: spec asks, the kubelet allocates, the runtime puts in force."""

    @pytest.mark.parametrize(
        ("asked", "allocated", "in_force", "reason", "cpu_milli"),
        [
            ("2", "1", "1", "", 2000),
            ("1", "2", "1", "", 2000),
            ("1", "1", "2", "", 2000),
            ("4", "1", "2", "Deferred", 4000),
            ("4", "1", "2", "Infeasible", 2000),
            ("1", "4", "2", "Infeasible", 4000),
            ("4", None, "2", "Infeasible", 2000),
            # Without resources in force there is no status to speak of: the spec counts.
            ("1", "4", None, "", 1000),
            ("4", "1", None, "Infeasible", 4000),
        ],
    )
    def test_the_most_counts_unless_what_is_asked_is_infeasible(
        self, asked: str, allocated: str | None, in_force: str | None, reason: str, cpu_milli: int
    ):
        pod = resized(
            make_pod().request(cpu=asked),
            allocated={"cpu": allocated} if allocated else None,
            in_force={"cpu": in_force} if in_force else None,
            reason=reason,
        )
        assert pod_requests(pod.build()) == {"cpu": cpu_milli}

    def test_the_first_pending_condition_decides(self):
        pod = resized(make_pod().request(cpu="4"), allocated={"cpu": "1"}, in_force={"cpu": "1"})
        pending = {"type": "PodResizePending", "status": "True"}
        pod.set_status(conditions=[{**pending, "reason": "Deferred"}, {**pending, "reason": "Infeasible"}])
        assert pod_requests(pod.build()) == {"cpu": 4000}

    def test_an_infeasible_resize_may_leave_a_resource_out(self):
        pod = resized(
            make_pod().request(cpu="4", memory="1Gi"),
            allocated={"cpu": "1"},
            in_force={"cpu": "1"},
            reason="Infeasible",
        )
        assert pod_requests(pod.build()) == {"cpu": 1000}

    def test_containers_are_looked_at_one_by_one(self):
        pod = resized(make_pod().request(cpu="1").request(cpu="2"), allocated={"cpu": "3"}, in_force={"cpu": "3"})
        assert pod_requests(pod.build()) == {"cpu": 5000}

    def test_sidecars_are_resized_and_other_init_containers_are_not(self):
        def with_init(sidecar: bool) -> dict[str, int]:
            pod = make_pod().request(cpu="1").init_container(requests={"cpu": "2"}, sidecar=sidecar)
            held = {"name": "init0", "allocatedResources": {"cpu": "4"}, "resources": {"requests": {"cpu": "4"}}}
            return pod_requests(pod.set_status(initContainerStatuses=[held]).build())

        assert with_init(sidecar=True) == {"cpu": 5000}
        assert with_init(sidecar=False) == {"cpu": 2000}

    def test_status_is_left_aside_where_switched_off(self):
        pod = resized(make_pod().request(cpu="1"), allocated={"cpu": "4"}, in_force={"cpu": "4"}).build()
        assert pod_requests(pod, use_status=False) == {"cpu": 1000}


class TestScoring:
    """Scoring counts CPU and memory of containers that ask for none."""

    def test_each_container_gets_what_it_lacks(self):
        pod = make_pod().request(cpu="1").container().request(memory="1Gi").build()
        assert pod_requests_for_scoring(pod) == {
            "cpu": 1000 + 2 * DEFAULT_CPU_MILLI,
            "memory": 2 * DEFAULT_MEMORY_BYTES + 1024 * MI,
        }

    def test_an_explicit_zero_stays(self):
        assert pod_requests_for_scoring(make_pod().request(cpu="0", memory="0").build()) == {"cpu": 0, "memory": 0}

    def test_init_containers_get_them_too(self):
        pod = make_pod().request(cpu="10m", memory="1Mi").init_container(requests={"memory": "1Mi"}).build()
        assert pod_requests_for_scoring(pod)["cpu"] == DEFAULT_CPU_MILLI

    def test_a_pod_level_request_does_away_with_the_defaults_of_what_is_asked_for(self):
        named = make_pod().request(memory="1Mi").container().pod_level(cpu="1").build()
        assert pod_requests_for_scoring(named) == {"cpu": 1000, "memory": MI}
        unnamed = make_pod().container().container().pod_level(cpu="1").build()
        assert pod_requests_for_scoring(unnamed) == {"cpu": 1000, "memory": 2 * DEFAULT_MEMORY_BYTES}

    @pytest.mark.parametrize(
        "pod",
        [
            make_pod().request(cpu="1", memory="1Gi"),
            make_pod().request(cpu="1"),
            make_pod(),
            make_pod().request(cpu="1", memory="1Gi").init_container(requests={"cpu": "2"}),
            make_pod().request(cpu="1", memory="1Gi").pod_level(cpu="4").overhead(cpu="10m"),
            resized(
                make_pod().request(cpu="4", memory="1Gi"),
                allocated={"cpu": "1"},
                in_force={"cpu": "1"},
                reason="Infeasible",
            ),
        ],
    )
    def test_the_short_cut_agrees(self, pod: PodBuilder):
        built = pod.build()
        scored = pod_requests_for_scoring(built)
        assert scoring_requests(built, pod_requests(built)) == (scored.get("cpu", 0), scored.get("memory", 0))
