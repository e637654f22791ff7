"""Keeps count of what the ResourceQuotas of a simulated cluster count, and says whom they refuse.

Plays the admission plugin and the controller of quotas: `QuotaKeeper` hears of every pod and claim that comes and goes.
It counts those of a namespace when it is first asked about one, and costs nothing where there are no quotas. Of other
kinds, of which a simulated cluster does not have all objects, what a quota's status says counts, and what is made here.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from berth.api.meta import Struct
from berth.api.pod import Pod, PodSpec
from berth_workloads.amounts import Amount, Amounts, amounts, total
from berth_workloads.pods import Json
from berth_workloads.quotas import (
    CLAIMS,
    DEVICE_CLAIMS,
    PODS,
    Charge,
    Kind,
    charge_for,
    counted_kind,
    counted_usage,
)

COUNTED: Mapping[str, Kind] = {"Pod": PODS, "PersistentVolumeClaim": CLAIMS, "ResourceClaim": DEVICE_CLAIMS}
"""The kinds of which a simulated cluster has all objects."""
SPECS_AT_MOST = 1 << 12
"""Of so many pod specs it is remembered what they are charged; replicas share theirs."""

Charges = tuple["Charge | str", ...]
"""What an object costs each quota of its namespace, or why the quota refuses it whatever is used."""


class QuotaLedger:
    """What is used of each quota of a namespace."""

    __slots__ = ("_used",)

    def __init__(self, used: list[dict[str, Amount]]) -> None:
        self._used = used

    def copied(self) -> "QuotaLedger":
        """Return the same, to try something on."""
        return QuotaLedger([dict(each) for each in self._used])

    def refusal(self, charges: Charges) -> str:
        """Say why the first quota that refuses an object does; empty where none does."""
        for charge, used in zip(charges, self._used, strict=True):
            why = charge if isinstance(charge, str) else charge.excess(used)
            if why:
                return why
        return ""

    def room(self, charges: Charges) -> int | None:
        """Return how many objects that cost so much are let in; None where nothing limits them."""
        rooms: list[int] = []
        for charge, used in zip(charges, self._used, strict=True):
            if isinstance(charge, str):
                return 0
            rooms += (
                max(0, int((charge.hard[name].value - used[name].value) // each.value))
                for name, each in charge.more.items()
            )
        return min(rooms, default=None)

    def is_overdrawn(self, charges: Charges) -> bool:
        """Say whether more is used already than is let in, of what an object costs; or it is refused in any case."""
        return any(
            isinstance(charge, str) or any(used[name].value > charge.hard[name].value for name in charge.more)
            for charge, used in zip(charges, self._used, strict=True)
        )

    def charge(self, charges: Charges) -> None:
        """Count a new object."""
        self.add([{} if isinstance(each, str) else each.more for each in charges])

    def add(self, usage: list[Amounts]) -> None:
        """Count an object that is there."""
        self._used = [total([used, more]) for used, more in zip(self._used, usage, strict=True)]

    def take_off(self, usage: list[Amounts]) -> None:
        """Count an object no more."""
        for used, less in zip(self._used, usage, strict=True):
            for name, each in less.items():
                used[name] = Amount(used[name].value - each.value, used[name].is_binary)


class _Space(NamedTuple):
    """A namespace with quotas: what is used of them, and what each of its objects takes of that."""

    ledger: QuotaLedger
    members: dict[tuple[str, str], list[Amounts]]


class QuotaKeeper:
    """All quotas of a cluster."""

    __slots__ = ("_charges", "_made", "_objects", "_quotas", "_spaces", "freed")

    def __init__(self, objects: Mapping[tuple[str, str], Any]) -> None:
        """`objects` are those of the cluster by kind and key, as they are at any time."""
        self._objects = objects
        self._quotas: Mapping[str, tuple[Json, ...]] = {}
        self._made: tuple[tuple[str, Kind, Json], ...] = ()
        self._spaces: dict[str, _Space] = {}
        self._charges: dict[tuple[str, int], tuple[PodSpec, Charges]] = {}
        self.freed: set[str] = set()
        """The namespaces in which something has gone since somebody emptied this."""

    def limit(self, quotas: Mapping[str, tuple[Json, ...]], made: tuple[tuple[str, Kind, Json], ...] = ()) -> None:
        """Let these be the quotas, by namespace; `made` are objects that are there beside those that are counted."""
        if quotas is not self._quotas or made is not self._made:
            self._quotas, self._made = quotas, made
            self._spaces.clear()
            self._charges.clear()

    def has_quotas(self, namespace: str) -> bool:
        """Say whether anything is limited in a namespace."""
        return namespace in self._quotas

    def refusal(self, obj: Any) -> str:
        """Say why quotas refuse a new pod or claim; empty where they do not."""
        namespace = obj.metadata.namespace
        if namespace not in self._quotas:
            return ""
        return self._space(namespace).ledger.refusal(self.charges(obj))

    def refusal_of(self, namespace: str, kind: Kind, manifest: Json) -> str:
        """Say the same of a new object of any kind."""
        charges = tuple(charge_for(quota, kind, manifest) for quota in self._quotas.get(namespace, ()))
        return self._space(namespace).ledger.refusal(charges) if charges else ""

    def ledger(self, namespace: str) -> QuotaLedger | None:
        """Return a copy of what is used in a namespace; None where there are no quotas."""
        return self._space(namespace).ledger.copied() if namespace in self._quotas else None

    def charges(self, obj: Any) -> Charges:
        """Return what a new pod or claim costs the quotas of its namespace."""
        quotas, kind = self._quotas.get(obj.metadata.namespace, ()), COUNTED[type(obj).__name__]
        if not isinstance(obj, Pod):
            manifest = as_json(obj)
            return tuple(charge_for(quota, kind, manifest) for quota in quotas)
        asked = obj.metadata.namespace, id(obj.spec)
        known = self._charges.get(asked)
        if known is None or known[0] is not obj.spec:
            if len(self._charges) >= SPECS_AT_MOST:
                self._charges.clear()
            manifest = as_json(Pod(spec=obj.spec))
            known = self._charges[asked] = obj.spec, tuple(charge_for(quota, kind, manifest) for quota in quotas)
        return known[1]

    def note(self, obj: Any) -> None:
        """Count a pod or a claim that is new or has changed."""
        space = self._spaces.get(obj.metadata.namespace)
        if space is not None:
            self._drop(space, obj)
            self._count(space, obj)

    def forget(self, obj: Any) -> None:
        """Count one no more that is gone."""
        space = self._spaces.get(obj.metadata.namespace)
        if space is not None:
            self._drop(space, obj)
            self.freed.add(obj.metadata.namespace)

    def _space(self, namespace: str) -> _Space:
        found = self._spaces.get(namespace)
        if found is None:
            ledger = QuotaLedger([_used_by_others(quota) for quota in self._quotas[namespace]])
            found = self._spaces[namespace] = _Space(ledger, {})
            for (kind, _), obj in self._objects.items():
                if kind in COUNTED and obj.metadata.namespace == namespace:
                    self._count(found, obj)
            for of_namespace, of_kind, manifest in self._made:
                if of_namespace == namespace:
                    ledger.add([counted_usage(quota, of_kind, manifest) for quota in self._quotas[namespace]])
        return found

    def _count(self, space: _Space, obj: Any) -> None:
        kind, namespace = type(obj).__name__, obj.metadata.namespace
        if isinstance(obj, Pod) and obj.status.phase not in ("Succeeded", "Failed"):
            charges = self.charges(obj)
            usage: list[Amounts] = []
            for quota, charge in zip(self._quotas[namespace], charges, strict=True):
                # What would be refused today for what it does not say has been let in before the quota was there.
                usage.append(counted_usage(quota, PODS, as_json(obj)) if isinstance(charge, str) else charge.more)
        else:
            manifest = as_json(obj)
            usage = [counted_usage(quota, COUNTED[kind], manifest) for quota in self._quotas[namespace]]
        space.members[kind, obj.metadata.name] = usage
        space.ledger.add(usage)

    def _drop(self, space: _Space, obj: Any) -> None:
        usage = space.members.pop((type(obj).__name__, obj.metadata.name), None)
        if usage is not None:
            space.ledger.take_off(usage)


def as_json(obj: Struct) -> Json:
    """Return an object as JSON, as the rules of admission read it."""
    found: Json = msgspec.json.decode(msgspec.json.encode(obj))
    return found


def _used_by_others(quota: Json) -> dict[str, Amount]:
    """What the status of a quota says of the objects that are not counted here; of the others nothing."""
    hard, used = (quota.get("spec") or {}).get("hard") or {}, amounts((quota.get("status") or {}).get("used"))
    known = set(COUNTED.values())
    return {
        name: Amount(Fraction(0)) if counted_kind(name) in known or name not in used else used[name] for name in hard
    }
