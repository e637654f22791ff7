"""Reading and building the parts that all API objects share: owners, timestamps, conditions, labels.

Objects are JSON dicts as the store keeps them, which are shared and never changed in place: functions here return
values or new dicts.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Object = dict[str, Any]
"""An API object as JSON, or a part of one."""

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"


def value_at(obj: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for key in path.split("."):
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def key_of(obj: Object) -> str:
    """`namespace/name`, or just the name of a cluster-wide object: the key of every work queue."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def uid_of(obj: Object) -> str:
    """The object's uid."""
    return str(obj["metadata"].get("uid", ""))


def generation_of(obj: Object) -> int:
    """How often the object's spec has changed, and 0 for kinds of which that is not counted."""
    return int_of(obj["metadata"], "generation")


def labels_of(obj: Object) -> dict[str, str]:
    """The object's labels, or an empty dict; not to be changed."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """The object's annotations, or an empty dict; not to be changed."""
    return obj["metadata"].get("annotations") or {}


def is_being_deleted(obj: Object) -> bool:
    """Whether the object is being deleted and only waits for its finalizers or its grace period."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def owner_references(obj: Object) -> list[Object]:
    """The object's owner references, or an empty list; not to be changed."""
    return obj["metadata"].get("ownerReferences") or []


def controller_reference(obj: Object) -> Object | None:
    """The one owner reference that says `controller: true`, if there is one."""
    for reference in obj["metadata"].get("ownerReferences") or ():  # asked for each change: quicker than a generator
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def new_owner_reference(owner: Object) -> Object:
    """The reference by which an object goes with its owner."""
    named = {"name": owner["metadata"]["name"], "uid": uid_of(owner)}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named}


def new_controller_reference(owner: Object) -> Object:
    """The reference with which `owner` marks the objects it makes."""
    return {**new_owner_reference(owner), "controller": True, "blockOwnerDeletion": True}


def with_metadata(obj: Object, **fields: Any) -> Object:
    """A copy of `obj` with some metadata fields replaced; None or an empty value removes the field."""
    metadata = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if value not in (None, [], {})}}


def without_finalizer(obj: Object, finalizer: str) -> Object:
    """A copy of `obj` that no longer waits for `finalizer`."""
    kept = [name for name in obj["metadata"].get("finalizers") or [] if name != finalizer]
    return with_metadata(obj, finalizers=kept)


def timestamp(moment: datetime) -> str:
    """A metav1.Time."""
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"  # several times quicker than strftime


def format_time(now_s: float) -> str:
    """Seconds since the epoch as the API writes times: RFC 3339, UTC, whole seconds."""
    return _formatted(int(now_s))


@lru_cache(maxsize=256)
def _formatted(second: int) -> str:
    return timestamp(datetime.fromtimestamp(second, UTC))


def format_micro_time(now_s: float) -> str:
    """Seconds since the epoch as `metav1.MicroTime` (Lease renewals)."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> float:
    """An API time as seconds since the epoch; 0.0 for none or for one that cannot be read."""
    if not text:
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def find_condition(obj: Object, condition_type: str) -> Object | None:
    """The condition of that type in the object's status."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == condition_type), None)


def is_condition_true(obj: Object, condition_type: str) -> bool:
    """The object's status has that condition, and it is "True"."""
    condition = find_condition(obj, condition_type)
    return condition is not None and condition.get("status") == "True"


def set_condition(conditions: Iterable[Object], new: Object) -> list[Object]:
    """The conditions with `new` in place of its type; the transition time is kept while the status is."""
    result = []
    placed = False
    for condition in conditions:
        if condition["type"] != new["type"]:
            result.append(condition)
            continue
        placed = True
        if condition["status"] == new["status"] and "lastTransitionTime" in condition:
            new = {**new, "lastTransitionTime": condition["lastTransitionTime"]}
        result.append(new)
    if not placed:
        result.append(new)
    return result


def new_condition(condition_type: str, status: bool | str, reason: str, message: str, now_s: float) -> Object:
    """A condition as of now."""
    times = {"lastTransitionTime": format_time(now_s)}
    return {"type": condition_type, "status": str(status), **times, "reason": reason, "message": message}


def with_condition(status: Object | None, new: Object) -> Object:
    """A status with `new` in place of the condition of its type (see `set_condition`)."""
    return {**(status or {}), "conditions": set_condition((status or {}).get("conditions") or [], new)}


def int_of(mapping: Mapping[str, Any], field: str, default: int = 0) -> int:
    """An integer field that may be absent or null."""
    value = mapping.get(field)
    return default if value is None else int(value)
