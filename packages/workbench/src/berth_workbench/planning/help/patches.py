"""Patches between two states of an object: strategic merge where it can say the difference, JSON patch where not.

Patches are made of what the scheduler reads of an object, and are to be applied to the whole object. So a list whose
entries have fields that the scheduler does not read (containers, ports, volumes) is never replaced, only patched entry
by entry. Lists of tolerations, taints, terms and expressions are read completely, and kubectl replaces them as a whole.
Source of the merge keys: the patchMergeKey tags of k8s.io/api/core/v1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from berth_workbench.planning.help.result import PatchType

Json = dict[str, Any]

MERGE_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "containers": "name",
        "initContainers": "name",
        "ports": "containerPort",
        "volumes": "name",
        "schedulingGates": "name",
        "resourceClaims": "name",
        "topologySpreadConstraints": "topologyKey",
    }
)
DELETE = "delete"


class InexpressibleError(ValueError):
    """A strategic merge patch cannot say this difference."""


def patch_of(before: Json, after: Json) -> tuple[PatchType, Any]:
    """Return a patch that turns the one into the other, and its type."""
    try:
        return "strategic", strategic_patch(before, after)
    except InexpressibleError:
        return "json", json_patch(before, after)


def strategic_patch(before: Json, after: Json) -> Json:
    """Return what differs, as a strategic merge patch. Raises `InexpressibleError`."""
    patch: Json = {}
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            patch[key] = strategic_patch(old, new)
        elif isinstance(old, list) and isinstance(new, list) and key in MERGE_KEYS:
            patch[key] = _entries(old, new, MERGE_KEYS[key])
        else:
            patch[key] = new
    return patch


def _entries(old: list[Json], new: list[Json], key: str) -> list[Json]:
    """Return the patch of a list that merges by a key, where entries were changed or taken out."""
    new_by_key = {each.get(key): each for each in new}
    names = [each.get(key) for each in old]
    if len(set(names)) != len(names) or len(new_by_key) != len(new) or not set(new_by_key) <= set(names):
        raise InexpressibleError(f"entries without a {key} of their own")
    patch: list[Json] = []
    for each in old:
        name = each.get(key)
        if name not in new_by_key:
            patch.append({key: name, "$patch": DELETE})
        elif new_by_key[name] != each:
            patch.append({key: name, **strategic_patch(each, new_by_key[name])})
    return patch


def json_patch(before: Any, after: Any, path: str = "") -> list[Json]:
    """Return what differs, as a JSON patch (RFC 6902)."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _fields(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        if len(before) == len(after):
            return [step for i, pair in enumerate(zip(before, after, strict=True)) for step in
                    json_patch(*pair, f"{path}/{i}")]  # fmt: skip
        gone = _taken_out(before, after)
        if gone is not None:
            return [{"op": "remove", "path": f"{path}/{index}"} for index in reversed(gone)]
    return [{"op": "replace", "path": path, "value": after}]


def _fields(before: Json, after: Json, path: str) -> list[Json]:
    steps: list[Json] = []
    for key in [*before, *(key for key in after if key not in before)]:
        here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if before.get(key) is not None and after.get(key) is None:
            steps.append({"op": "remove", "path": here})
        elif before.get(key) is None and after.get(key) is not None:
            steps.append({"op": "add", "path": here, "value": after[key]})
        else:
            steps += json_patch(before.get(key), after.get(key), here)
    return steps


def _taken_out(before: list[Any], after: list[Any]) -> list[int] | None:
    """Return which entries are missing, where the others are as they were; None where that is not all."""
    gone, place = [], 0
    for index, each in enumerate(before):
        if place < len(after) and after[place] == each:
            place += 1
        else:
            gone.append(index)
    return gone if place == len(after) else None


def document_of(obj: Any) -> Json:
    """Return an object as JSON values, without those that are absent, as empty lists are."""
    found: Json = _without_nulls(msgspec.to_builtins(obj))
    spec = found.get("spec", {})
    for field in ("tolerations", "taints"):
        if field in spec:  # an empty text means the same there as none
            spec[field] = [{key: value for key, value in each.items() if value != ""} for each in spec[field]]
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item not in (None, (), [])}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
