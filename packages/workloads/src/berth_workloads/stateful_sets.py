"""The ordinals of a StatefulSet's pods: which there should be, which are rolled out, and what a pod's name gives it.

Source: pkg/controller/statefulset, v1.36.
"""

from collections.abc import Mapping

from berth_workloads.int_or_percent import IntOrPercent, scaled

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"


def ordinal_of(pod_name: str, set_name: str) -> int | None:
    """Return the number in a pod's name; None where no pod of the set has that name."""
    parent, dash, text = pod_name.rpartition("-")
    is_own = bool(dash) and parent == set_name and text.isdecimal()
    return int(text) if is_own and text == str(int(text)) else None


def wanted_ordinals(first: int, replicas: int) -> range:
    """Return the ordinals that there should be; pods of others are deleted, the highest first."""
    return range(first, first + replicas)


def is_rolled_out(ordinal: int, first: int, partition: int) -> bool:
    """Say whether a rolling update concerns an ordinal: those below the partition keep the revision they have."""
    return ordinal >= first + partition


def rollout_order(first: int, replicas: int, partition: int) -> list[int]:
    """Return the ordinals whose pods a rolling update replaces one after the other, the highest first."""
    ordinals = reversed(wanted_ordinals(first, replicas))
    return [ordinal for ordinal in ordinals if is_rolled_out(ordinal, first, partition)]


def max_unavailable(given: IntOrPercent | None, replicas: int) -> int | None:
    """Return how many pods an update may make unavailable: at least 1, a share rounded down; None if not given."""
    return None if given is None else max(1, scaled(given, replicas, round_up=False))


def identity_labels(pod_name: str, ordinal: int, revision: str) -> Mapping[str, str]:
    """Return the labels that tell a set's pods apart."""
    return {POD_NAME_LABEL: pod_name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}


def claim_name(template_name: str, pod_name: str) -> str:
    """Return the name of the claim that a pod gets of a template; it outlives the pod."""
    return f"{template_name}-{pod_name}"
