"""What a DeviceTaintRule's status says: what it selects, whose eviction is pending, how many have been evicted.

A pure function from counts to a condition, in upstream's reasons and messages. Called by the device taint eviction
controller. Upstream: pkg/controller/devicetainteviction (maybeUpdateRuleStatus), v1.36.
"""

from typing import NamedTuple

from berth_cluster.controllers.meta import JsonObject, int_of

CONDITION = "EvictionInProgress"
NOT_REPEATED = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class Counts(NamedTuple):
    """Pods to be evicted and their namespaces, devices selected (published, allocated), pods evicted so far."""

    pending: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0
    evicted: int = 0


def rule_condition(rule: JsonObject, counts: Counts, now: str) -> JsonObject:
    """The condition for a rule with these counts; `now` in the API's form."""
    reason, message = _found(rule["spec"]["taint"].get("effect", ""), counts)
    if counts.evicted:
        done = f"{_number(counts.evicted, 'pod')} evicted since starting the controller."
        message = f"{message} {done}" if message else done
    return {
        "type": CONDITION,
        "status": str(reason == "PodsPendingEviction"),
        "reason": reason,
        "message": message,
        "observedGeneration": int_of(rule["metadata"], "generation"),
        "lastTransitionTime": now,
    }


def _found(effect: str, counts: Counts) -> tuple[str, str]:
    """Reason and message, without what was evicted already."""
    where = "1 namespace" if counts.namespaces == 1 else f"{counts.namespaces} different namespaces"
    if effect == "None":
        published = f"{_number(counts.published, 'published device')} selected."
        allocated = f"{_number(counts.allocated, 'allocated device')} selected."
        pods = f"{_number(counts.pending, 'pod')} would be evicted in {where} {NOT_REPEATED}"
        return "NoEffect", f"{published} {allocated} {pods}"
    if effect != "NoExecute":
        return "OtherEffect", "Eviction only happens for the NoExecute effect."
    if counts.pending:
        verb = "needs" if counts.pending == 1 else "need"
        return "PodsPendingEviction", f"{_number(counts.pending, 'pod')} {verb} to be evicted in {where}."
    return ("Completed" if counts.evicted else "NotStarted"), ""


def _number(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
