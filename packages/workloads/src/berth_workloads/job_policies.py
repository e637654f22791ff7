"""What a Job's podFailurePolicy makes of a failed pod, and whether its successPolicy is met.

Rules are those of the Job's spec, as JSON. Source: pod_failure_policy.go and success_policy.go in pkg/controller/job,
v1.36.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from berth_workloads.jobs import parse_indexes

COUNT, IGNORE, FAIL_INDEX, FAIL_JOB = "Count", "Ignore", "FailIndex", "FailJob"

Rule = Mapping[str, Any]


class FailedPod(NamedTuple):
    """What the policy reads of a pod that has failed."""

    key: str
    """`namespace/name`."""
    exits: Sequence[tuple[str, int]]
    """Container and exit code of each container that has ended."""
    conditions: Collection[tuple[str, str]]
    """Type and status of each condition."""


class FailureVerdict(NamedTuple):
    """What a failed pod means to its Job; the message is the Job's if that fails because of it."""

    action: str = COUNT
    message: str = ""


def failure_verdict(rules: Iterable[Rule], pod: FailedPod) -> FailureVerdict:
    """Return what the first rule that matches says; a pod that none matches counts."""
    for number, rule in enumerate(rules):
        if rule.get("onExitCodes") is not None:
            found = next((one for one in pod.exits if _matches(rule["onExitCodes"], *one)), None)
            what = found and f"Container {found[0]} for pod {pod.key} failed with exit code {found[1]}"
        else:
            patterns = ((one["type"], one.get("status", "True")) for one in rule.get("onPodConditions") or ())
            condition = next((pattern for pattern in patterns if pattern in pod.conditions), None)
            what = condition and f"Pod {pod.key} has condition {condition[0]}"
        if what:
            action = str(rule["action"])
            return FailureVerdict(action, f"{what} matching {action} rule at index {number}")
    return FailureVerdict()


def _matches(wanted: Rule, container: str, code: int) -> bool:
    if code == 0 or wanted.get("containerName") not in (None, "", container):
        return False
    return bool((code in wanted["values"]) == (wanted["operator"] == "In"))


def success_met(rules: Iterable[Rule], succeeded: Collection[int]) -> str:
    """Return the message of the first rule that the succeeded indexes satisfy; the empty string if there is none."""
    for number, rule in enumerate(rules):
        of_rule, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = parse_indexes(of_rule) if of_rule is not None else succeeded
        if sum(index in succeeded for index in wanted) >= (len(wanted) if count is None else count):
            return f"Matched rules at index {number}"
    return ""
