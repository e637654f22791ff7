"""The device taint eviction controller: ends pods that use a device with a NoExecute taint that they do not tolerate.

Taints come from published slices and from DeviceTaintRules, tolerations from claims. Driven by changes of pods, claims,
slices and rules, and by time (tolerations that run out). Unlike upstream it also considers claims that were made for
extended resources. The status of a rule says how its evictions are coming along. Upstream:
pkg/controller/devicetainteviction, v1.36 (KEP-5055).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from berth.api.device_taints import is_for, tolerates
from berth.api.dra import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from berth_cluster.apimachinery.meta import (
    Object,
    find_condition,
    generation_of,
    is_being_deleted,
    key_of,
    new_condition,
    parse_time,
    uid_of,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.decoding import decoded
from berth_cluster.controllers.devices.resource_claims import claims_of
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pod_eviction import EvictingController
from berth_cluster.controllers.pods import is_active, node_of

PoolId = tuple[str, str]
"""Driver and pool name."""

NO_EXECUTE = "NoExecute"
POD, CLAIM, SLICE, RULE = "Pod", "ResourceClaim", "ResourceSlice", "DeviceTaintRule"
STATUS_PERIOD_S = 10.0
"""The status of a rule is written at most once in this time, except for the first time after its spec has changed."""
CONDITION = "EvictionInProgress"
NOT_REPEATED = (
    "if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class DeviceEviction(NamedTuple):
    """When the users of a claim are to be evicted (seconds since the epoch), and the uids of the rules behind it."""

    at_s: float
    rules: frozenset[str]


class DevicePools:
    """The published slices by pool; only those of a pool's newest generation count."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[PoolId, dict[str, ResourceSlice]] = {}

    def put(self, published: ResourceSlice) -> None:
        """Take a new or changed slice in."""
        self._slices.setdefault(pool_of(published), {})[published.metadata.name] = published

    def drop(self, published: ResourceSlice) -> None:
        """A slice is gone, or now of another pool."""
        slices = self._slices.get(pool_of(published), {})
        slices.pop(published.metadata.name, None)
        if not slices:
            self._slices.pop(pool_of(published), None)

    def taints(self, pool_id: PoolId, device: str) -> tuple[DeviceTaint, ...]:
        """The taints that a device was published with."""
        found = (one.taints for _, one in self._devices({pool_id}) if one.name == device)
        return next(found, ())

    def count(self, rule: DeviceTaintRule) -> int:
        """How many published devices a rule selects."""
        return sum(is_for(rule, *pool_id, device.name) for pool_id, device in self._devices(self._slices))

    def _devices(self, pool_ids: Iterable[PoolId]) -> Iterator[tuple[PoolId, Device]]:
        for pool_id in pool_ids:
            slices = self._slices.get(pool_id, {}).values()
            newest = max((one.spec.pool.generation for one in slices), default=0)
            for one in slices:
                if one.spec.pool.generation == newest:
                    yield from ((pool_id, device) for device in one.spec.devices)


def pool_of(published: ResourceSlice) -> PoolId:
    """Which pool a slice is part of."""
    return published.spec.driver, published.spec.pool.name


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """The devices that a claim has been given."""
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def eviction_of(claim: ResourceClaim, pools: DevicePools, rules: Iterable[DeviceTaintRule]) -> DeviceEviction | None:
    """When the users of a claim are to go; None when all NoExecute taints of its devices are tolerated for ever."""
    found: list[DeviceEviction] = []
    rules = list(rules)
    for result in results_of(claim):
        pool_id = (result.driver, result.pool)
        taints = [(taint, "") for taint in pools.taints(pool_id, result.device)]
        taints += [(rule.spec.taint, rule.metadata.uid) for rule in rules if is_for(rule, *pool_id, result.device)]
        for taint, uid in taints:
            at_s = _eviction_time(taint, result)
            if at_s is not None:
                found.append(DeviceEviction(at_s, frozenset((uid,)) if uid else frozenset()))
    return earliest(found)


def earliest(found: list[DeviceEviction]) -> DeviceEviction | None:
    """The earliest of several evictions, with the reasons of all of them."""
    if not found:
        return None
    return DeviceEviction(min(one.at_s for one in found), frozenset[str]().union(*(one.rules for one in found)))


def _eviction_time(taint: DeviceTaint, result: DeviceRequestAllocationResult) -> float | None:
    """When a taint ends the use of a device: when the shortest matching toleration runs out; None if it never does."""
    if taint.effect != NO_EXECUTE:
        return None
    covering = [one for one in result.tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    if any(one.toleration_seconds is None for one in covering):
        return None
    seconds = min((max(0, one.toleration_seconds or 0) for one in covering), default=0)
    return parse_time(taint.time_added) + seconds


class RuleCounts(NamedTuple):
    """Pods to be evicted and their namespaces, devices selected (published, allocated), pods evicted so far."""

    pending: int = 0
    namespaces: int = 0
    published: int = 0
    allocated: int = 0
    evicted: int = 0


def rule_condition(rule: Object, counts: RuleCounts, now_s: float) -> Object:
    """The condition for a rule with these counts."""
    reason, message = _found(rule["spec"]["taint"].get("effect", ""), counts)
    if counts.evicted:
        done = f"{_number(counts.evicted, 'pod')} evicted since starting the controller."
        message = f"{message} {done}" if message else done
    condition = new_condition(CONDITION, reason == "PodsPendingEviction", reason, message, now_s)
    return condition | {"observedGeneration": generation_of(rule)}


def _found(effect: str, counts: RuleCounts) -> tuple[str, str]:
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


class DeviceTaintEviction(EvictingController):
    """Evicts pods because of tainted devices, and keeps the status of the rules that have them evicted."""

    __slots__ = ("_claims", "_evicted", "_pools", "_rules", "_users")

    name = "device-taint-eviction"
    kinds = frozenset({POD, CLAIM, SLICE, RULE})
    event = "DeviceTaintManagerEviction"
    reason = "DeletionByDeviceTaintManager"
    message = "Device Taint manager: deleting due to NoExecute taint"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._pools = DevicePools()
        self._rules: dict[str, DeviceTaintRule] = {}  # those that evict, by name
        self._claims: dict[str, ResourceClaim] = {}  # those with an allocation, by key
        self._users: dict[PoolId, dict[str, None]] = {}  # the claims that have devices of a pool
        self._evicted: dict[str, int] = {}  # pods evicted because of a rule, by its uid

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Keep track of devices, rules and claims, and look at the pods they concern."""
        if change.kind == CLAIM:
            self._handle_claim(change)
        elif change.kind == SLICE:
            self._handle_slice(change)
        elif change.kind == RULE:
            self._handle_rule(change)
        elif change.type == "DELETED":
            self.threatened.pop(uid_of(change.obj), None)
        elif next(claims_of(change.obj), "") and (
            change.old is None or _claim_view(change.old) != _claim_view(change.obj)
        ):
            self.look_at(change.obj)

    def _handle_claim(self, change: ObjectChange) -> None:
        key = key_of(change.obj)
        before = self._claims.pop(key, None)
        claim: ResourceClaim | None = decoded(CLAIM, change.obj) if change.type != "DELETED" else None
        if before is not None:
            for result in results_of(before):
                self._users.get((result.driver, result.pool), {}).pop(key, None)
            self._add_users(before)
        if claim is not None and results_of(claim):
            self._claims[key] = claim
            for result in results_of(claim):
                self._users.setdefault((result.driver, result.pool), {})[key] = None
            self._add_users(claim)

    def _handle_slice(self, change: ObjectChange) -> None:
        before: ResourceSlice | None = decoded(SLICE, change.old) if change.old is not None else None
        published: ResourceSlice | None = decoded(SLICE, change.obj)
        if before is not None:
            self._pools.drop(before)
        if published is not None and change.type == "DELETED":
            self._pools.drop(published)
        elif published is not None:
            self._pools.put(published)
        for pool_id in {pool_of(one) for one in (before, published) if one is not None}:
            for key in self._users.get(pool_id, ()):
                self._add_users(self._claims[key])

    def _handle_rule(self, change: ObjectChange) -> None:
        name = change.obj["metadata"]["name"]
        if change.type != "DELETED" and change.old is not None and change.old["spec"] == change.obj["spec"]:
            return
        rule: DeviceTaintRule | None = decoded(RULE, change.obj)
        self._rules.pop(name, None)
        if change.type == "DELETED":
            self._evicted.pop(uid_of(change.obj), None)
        else:
            self.look_up(RULE, name)
            if rule is not None and rule.spec.taint.effect == NO_EXECUTE:
                self._rules[name] = rule
        for claim in self._claims.values():
            self._add_users(claim)

    def _add_users(self, claim: ResourceClaim) -> None:
        for user in claim.status.reserved_for:
            if user.resource == "pods" and not user.api_group:
                self.look_up(POD, f"{claim.metadata.namespace}/{user.name}")

    def sync(self, obj: Object, now_s: float) -> None:
        """Evict one pod if its time has come, or write one rule's status."""
        if obj["kind"] == RULE:
            self._write_status(obj, now_s)
            return
        eviction = self._eviction(obj, self._rules.values()) if is_active(obj) else None
        if eviction is None:
            if is_being_deleted(obj):
                self.threatened.pop(uid_of(obj), None)
            self.spare(obj, "Cancelling deletion", now_s)
            return
        if self.evict_at(eviction.at_s, obj, "Marking for deletion", now_s):
            for uid in eviction.rules:
                self._evicted[uid] = self._evicted.get(uid, 0) + 1
        self._look_at_rules(eviction, now_s)

    # --- pods ------------------------------------------------------------------------------------------------

    def _eviction(self, pod: Object, rules: Iterable[DeviceTaintRule]) -> DeviceEviction | None:
        """When a pod is to go, if at all."""
        if not node_of(pod):
            return None
        rules = list(rules)
        found = (eviction_of(claim, self._pools, rules) for claim in self._claims_held(pod))
        return earliest([one for one in found if one is not None])

    def _claims_held(self, pod: Object) -> Iterator[ResourceClaim]:
        for name in claims_of(pod):
            claim = self._claims.get(f"{pod['metadata']['namespace']}/{name}")
            if claim is not None and any(user.uid == uid_of(pod) for user in claim.status.reserved_for):
                yield claim

    # --- rules -----------------------------------------------------------------------------------------------

    def _look_at_rules(self, eviction: DeviceEviction, now_s: float) -> None:
        """Have the status of these rules written a little later, so that several evictions share one write."""
        for name, rule in self._rules.items():
            if rule.metadata.uid in eviction.rules:
                self.look_up(RULE, name, now_s + STATUS_PERIOD_S)

    def _write_status(self, rule: Object, now_s: float) -> None:
        known = find_condition(rule, CONDITION) or {}
        due_s = parse_time(known.get("lastTransitionTime")) + STATUS_PERIOD_S
        if known.get("observedGeneration") == generation_of(rule) and now_s < due_s:
            self.look_at(rule, due_s)
            return
        condition = rule_condition(rule, self._count(rule), now_s)
        if {**condition, "lastTransitionTime": known.get("lastTransitionTime")} != known:
            # Its time is that of the last change of any kind, not only of its status.
            others = [one for one in (rule.get("status") or {}).get("conditions") or [] if one["type"] != CONDITION]
            status = {**(rule.get("status") or {}), "conditions": [*others, condition]}
            self.client.set_status(rule, status)

    def _count(self, obj: Object) -> RuleCounts:
        """How many pods and devices a rule concerns; a rule with the effect None is counted as if it evicted."""
        effect = obj["spec"]["taint"].get("effect")
        evicted = self._evicted.get(uid_of(obj), 0)
        read: DeviceTaintRule | None = decoded(RULE, obj)
        if read is None or effect not in (NO_EXECUTE, "None"):
            return RuleCounts(evicted=evicted)
        taint = msgspec.structs.replace(read.spec.taint, effect=NO_EXECUTE)
        rule = msgspec.structs.replace(read, spec=msgspec.structs.replace(read.spec, taint=taint))
        rules = [*(one for one in self._rules.values() if one.metadata.uid != uid_of(obj)), rule]
        namespaces: list[str] = []
        for pod in self.index.all_of(POD):
            eviction = self._eviction(pod, rules) if is_active(pod) else None
            if eviction is not None and uid_of(obj) in eviction.rules:
                namespaces.append(pod["metadata"]["namespace"])
        allocated = sum(
            is_for(rule, result.driver, result.pool, result.device)
            for claim in self._claims.values()
            for result in results_of(claim)
        )
        return RuleCounts(len(namespaces), len(set(namespaces)), self._pools.count(rule), allocated, evicted)


def _claim_view(pod: Object) -> tuple[str, list[str]]:
    return node_of(pod), list(claims_of(pod))
