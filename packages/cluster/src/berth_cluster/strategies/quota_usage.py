"""How much of a ResourceQuota is used, as its status says.

The store charges what comes (`storage.quotas`), and a controller counts again when something goes
(`controllers.quotas`). The rules are those of `berth_workloads.quotas`.
"""

from collections.abc import Callable, Iterable, Sequence

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, ResourceType
from berth_workloads.amounts import Amounts, total
from berth_workloads.quotas import ZERO, counted_kind, counts, usage_of


def used_of(quota: Object, custom: Sequence[ResourceType], objects: Callable[[ResourceType], list[Object]]) -> Object:
    """The status of a quota: what of its resources is used; `objects` gives those of a kind in its namespace."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    kinds = {name: kind for name in hard if (kind := kind_of_resource(name, custom)) is not None}
    used = dict.fromkeys(kinds, ZERO)
    for kind in {kind.key: kind for kind in kinds.values()}.values():
        of_kind = total(usage_of(kind.key, obj) for obj in objects(kind) if counts(quota, kind.key, obj))
        used |= {name: each for name, each in of_kind.items() if kinds.get(name) is kind}
    return {"hard": hard, "used": written(used)}


def written(used: Amounts) -> Object:
    """Amounts as a status has them."""
    return {name: str(used[name]) for name in sorted(used)}


def kind_of_resource(name: str, custom: Iterable[ResourceType] = ()) -> ResourceType | None:
    """The kind of objects that a quota for this resource counts."""
    key = counted_kind(name)
    return None if key is None else next((kind for kind in custom if kind.key == key), BY_KEY.get(key))
