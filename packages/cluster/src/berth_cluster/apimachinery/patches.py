"""Patches of all kinds, applied to plain JSON values.

The store calls `apply_patch` with private copies of object and patch: patches edit the object in place, and parts of
the patch become parts of the object. No patch takes more time or memory than in proportion to itself and the object,
within the limits below; what it leaves behind has to be as reasonable as any body. JSON patch is RFC 6902, merge patch
RFC 7386; strategic merge patches have a module of their own, `strategic_merge`.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import StoreError, bad_request, too_large, unsupported_media_type
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.reason import refuse_unreasonable
from berth_cluster.apimachinery.schema import type_of
from berth_cluster.apimachinery.strategic_merge import strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
MAX_OPERATIONS = 10_000
# Bytes of JSON that the copy operations of one patch may copy in all. Each can double the object, so without a limit a
# short patch could fill the memory.
MAX_COPIED_BYTES = 3 * 1024 * 1024
# List elements that the operations of one patch may move up or down: each insertion into the front of a list moves all
# the others.
MAX_MOVED_ELEMENTS = 10_000_000
_MAX_INDEX_DIGITS = 10


def apply_patch(target: Object, patch: Any, content_type: str, accepted: Sequence[str] = PATCH_TYPES) -> Object:
    """The object after the patch; `target` may be edited in place."""
    media_type = content_type.partition(";")[0].strip()
    if media_type in accepted:
        try:
            patched = _patched(target, patch, media_type)
        except RecursionError:
            raise bad_request("the patch makes the object too deep") from None
        refuse_unreasonable(patched, "the patched object")
    else:
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
        )
    if not isinstance(patched, dict):
        raise bad_request("the patch leaves no object behind")
    return patched


def _patched(target: Object, patch: Any, media_type: str) -> Any:
    if media_type == JSON_PATCH:
        return json_patch(target, patch)
    if media_type == MERGE_PATCH:
        return merge_patch(target, _object(patch))
    return strategic_merge(target, _object(patch), type_of(target))


def _object(patch: Any) -> Object:
    if not isinstance(patch, dict):
        raise bad_request(f"a patch of this type must be a JSON object, not {type(patch).__name__}")
    return patch


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902: a list of operations, all or none."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    work = _PatchWork()
    for operation in operations:
        try:
            work.copy(target, operation)
            target = _operate(target, operation, work)
        except _BadOperationError:
            # A patch that does not fit the object is the object's fault as much as the patch's: 422, as upstream, which
            # does not say why either.
            message = "the server rejected our request due to an error in our request"
            raise StoreError(422, "Invalid", message, {}) from None
    return target


class _BadOperationError(Exception):
    """An operation that does not fit the object; nobody is told why."""


class _PatchWork:
    """What the operations of one patch have cost so far; refuses a patch that goes beyond the limits."""

    __slots__ = ("_copied_bytes", "_moved_elements")

    def __init__(self) -> None:
        self._copied_bytes = 0
        self._moved_elements = 0

    def copy(self, target: Any, operation: Any) -> None:
        """Count the bytes that a copy operation is about to copy."""
        if not isinstance(operation, dict) or operation.get("op") != "copy":
            return
        if isinstance(operation.get("from"), str):
            self._copied_bytes += len(msgspec.json.encode(_lookup(target, _pointer(operation["from"]))))
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise too_large(f"the copy operations of a JSON patch may copy {MAX_COPIED_BYTES} bytes in all")

    def move(self, array: list[Any], index: int) -> None:
        """Count the elements behind an index, which is about to be inserted at or removed."""
        self._moved_elements += len(array) - index
        if self._moved_elements > MAX_MOVED_ELEMENTS:
            raise too_large(f"the operations of a JSON patch may move {MAX_MOVED_ELEMENTS} elements of lists in all")


def _operate(target: Any, operation: Any, work: _PatchWork) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise _BadOperationError
    verb, path = operation.get("op"), _pointer(operation["path"])
    if verb in ("move", "copy"):
        return _relocate(target, path, operation.get("from"), work, keep=verb == "copy")
    if verb == "remove":
        return _remove(target, path, work)[0]
    if "value" not in operation or verb not in ("add", "replace", "test"):
        raise _BadOperationError
    value = operation["value"]
    if verb == "add":
        return _add(target, path, value, work)
    if verb == "replace":
        return _replace(target, path, value)
    if _lookup(target, path) != value:
        raise _BadOperationError
    return target


def _pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise _BadOperationError
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(array: list[Any], key: str, *, past_end: bool = False) -> int:
    if key == "-" and past_end:
        return len(array)
    is_index = key.isascii() and key.isdigit() and len(key) < _MAX_INDEX_DIGITS
    if not is_index or int(key) >= len(array) + past_end:
        raise _BadOperationError
    return int(key)


def _step(target: Any, key: str) -> Any:
    if isinstance(target, dict) and key in target:
        return target[key]
    if isinstance(target, list):
        return target[_index(target, key)]
    raise _BadOperationError


def _lookup(target: Any, path: list[str]) -> Any:
    for key in path:
        target = _step(target, key)
    return target


def _add(target: Any, path: list[str], value: Any, work: _PatchWork) -> Any:
    if not path:
        return value
    parent, key = _lookup(target, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[key] = value
    elif isinstance(parent, list):
        index = _index(parent, key, past_end=True)
        work.move(parent, index)
        parent.insert(index, value)
    else:
        raise _BadOperationError
    return target


def _replace(target: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, key = _lookup(target, path[:-1]), path[-1]
    if not isinstance(parent, dict):  # which takes what it does not have yet, as upstream's library
        _step(parent, key)
    parent[_index(parent, key) if isinstance(parent, list) else key] = value
    return target


def _remove(target: Any, path: list[str], work: _PatchWork) -> tuple[Any, Any]:
    if not path:
        raise _BadOperationError
    parent, key = _lookup(target, path[:-1]), path[-1]
    removed = _step(parent, key)
    if isinstance(parent, list):
        work.move(parent, int(key))
    del parent[int(key) if isinstance(parent, list) else key]
    return target, removed


def _relocate(target: Any, path: list[str], source: Any, work: _PatchWork, *, keep: bool) -> Any:
    if not isinstance(source, str):
        raise _BadOperationError
    from_path = _pointer(source)
    if keep:
        value = copied(_lookup(target, from_path))
    elif path[: len(from_path)] == from_path and len(path) > len(from_path):  # a value cannot be moved into itself
        raise _BadOperationError
    else:
        target, value = _remove(target, from_path, work)
    return _add(target, path, value, work)


def copied(value: Any) -> Any:
    """A JSON value of its own."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
