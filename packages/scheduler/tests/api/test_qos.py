"""Quality of service; expectations from kubernetes.io, "Pod Quality of Service Classes", and KEP-2837."""

import pytest

from berth.api.qos import QosClass, qos_class
from berth.core.builders import make_pod

BOTH = {"cpu": "1", "memory": "1Gi"}


def resources(requests=None, limits=None):
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


def pod(*containers, init=(), own=None):
    made = make_pod("p")
    made.spec["containers"] = [{"name": f"c{number}", **each} for number, each in enumerate(containers)]
    made.spec["initContainers"] = [{"name": f"i{number}", **each} for number, each in enumerate(init)]
    if own is not None:
        made.spec.update(own)
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod({}), QosClass.BEST_EFFORT),
        (pod(resources({"cpu": "0", "memory": "0"})), QosClass.BEST_EFFORT),
        (pod(resources({"example.com/gpu": "1"})), QosClass.BEST_EFFORT),
        (pod(resources({"cpu": "1"})), QosClass.BURSTABLE),
        (pod(resources(limits=BOTH)), QosClass.BURSTABLE),  # the API server would have filled in requests
        (pod(resources(BOTH, BOTH)), QosClass.GUARANTEED),
        (pod(resources(BOTH, {"cpu": "1000m", "memory": "1024Mi"})), QosClass.GUARANTEED),
        (pod(resources(BOTH, {"cpu": "2", "memory": "1Gi"})), QosClass.BURSTABLE),
        (pod(resources({"cpu": "1"}, {"cpu": "1"})), QosClass.BURSTABLE),
        (pod(resources(BOTH, BOTH), {}), QosClass.BURSTABLE),
        (pod(resources(BOTH, BOTH), init=[{}]), QosClass.BURSTABLE),
        (pod(resources(BOTH, BOTH), init=[resources(BOTH, BOTH)]), QosClass.GUARANTEED),
        (pod({}, own=resources(BOTH, BOTH)), QosClass.GUARANTEED),
        (pod(resources(BOTH, BOTH), own=resources(BOTH)), QosClass.BURSTABLE),
        (pod(resources(BOTH, BOTH), own=resources({"hugepages-2Mi": "2Mi"})), QosClass.BEST_EFFORT),
    ],
)
def test_the_class_follows_from_requests_and_limits(made, expected):
    assert qos_class(made.build()) is expected
    assert made.info().qos_class is expected


def test_resources_of_the_pod_count_only_with_their_gate():
    made = pod({}, own=resources(BOTH, BOTH)).build()
    assert qos_class(made, pod_level=False) is QosClass.BEST_EFFORT
