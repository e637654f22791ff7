"""Patches of all kinds, applied to plain JSON values.

The store calls `apply_patch` with private copies of object and patch: patches edit the object in place, and parts of
the patch become parts of the object. JSON patch is RFC 6902, merge patch RFC 7386; strategic merge patches have a
module of their own, `strategic_merge`.
"""

from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import StoreError, bad_request, unsupported_media_type
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.strategic_merge import strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
MAX_OPERATIONS = 10_000
# Bytes of JSON that the copy operations of one patch may copy in all. Each can double the object, so without a limit a
# short patch could fill the memory.
MAX_COPIED_BYTES = 3 * 1024 * 1024
_MAX_INDEX_DIGITS = 10


def apply_patch(target: Object, patch: Any, content_type: str) -> Object:
    """The object after the patch; `target` may be edited in place."""
    media_type = content_type.partition(";")[0].strip()
    if media_type == JSON_PATCH:
        patched = json_patch(target, patch)
    elif media_type == MERGE_PATCH:
        patched = merge_patch(target, _object(patch))
    elif media_type == STRATEGIC_MERGE_PATCH:
        patched = strategic_merge(target, _object(patch))
    else:
        accepted = ", ".join(PATCH_TYPES)
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    if not isinstance(patched, dict):
        raise bad_request("the patch leaves no object behind")
    return patched


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
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise StoreError(413, "RequestEntityTooLarge", message)
    copied_bytes = 0
    for number, operation in enumerate(operations):
        try:
            copied_bytes = _copied_bytes(target, operation, copied_bytes)
            target = _operate(target, operation)
        except _BadOperationError as error:
            # A patch that does not fit the object is the object's fault as much as the patch's: 422, as upstream.
            message = f"the server rejected our request due to an error in our request: operation {number}: {error}"
            raise StoreError(422, "Invalid", message) from None
    return target


class _BadOperationError(Exception):
    pass


def _copied_bytes(target: Any, operation: Any, so_far: int) -> int:
    """The bytes copied so far, this operation included; refuses a patch that multiplies the object."""
    if not isinstance(operation, dict) or operation.get("op") != "copy" or not isinstance(operation.get("from"), str):
        return so_far
    copied = so_far + len(msgspec.json.encode(_lookup(target, _pointer(operation["from"]))))
    if copied > MAX_COPIED_BYTES:
        message = f"the copy operations of a JSON patch may copy {MAX_COPIED_BYTES} bytes in all"
        raise StoreError(413, "RequestEntityTooLarge", message)
    return copied


def _operate(target: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise _BadOperationError('it needs an "op" and a "path"')
    verb, path = operation.get("op"), _pointer(operation["path"])
    if verb == "remove":
        return _remove(target, path)[0]
    if verb in ("move", "copy"):
        return _relocate(target, path, operation, keep=verb == "copy")
    if "value" not in operation:
        raise _BadOperationError(f'{verb!r} needs a "value"')
    value = operation["value"]
    if verb == "add":
        return _add(target, path, value)
    if verb == "replace":
        return _replace(target, path, value)
    if verb == "test":
        if _lookup(target, path) != value:
            raise _BadOperationError(f"testing path {operation['path']} failed")
        return target
    raise _BadOperationError(f"unknown op {verb!r}")


def _pointer(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise _BadOperationError(f"path {path!r} must start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _index(array: list[Any], key: str, *, past_end: bool = False) -> int:
    if key == "-" and past_end:
        return len(array)
    if not (key.isascii() and key.isdigit() and len(key) < _MAX_INDEX_DIGITS):
        raise _BadOperationError(f"{key!r} is not an index of a list")
    index = int(key)
    if index >= len(array) + past_end:
        raise _BadOperationError(f"index {index} is past the end of the list")
    return index


def _step(target: Any, key: str) -> Any:
    if isinstance(target, dict) and key in target:
        return target[key]
    if isinstance(target, list):
        return target[_index(target, key)]
    raise _BadOperationError(f"there is no {key!r}")


def _lookup(target: Any, path: list[str]) -> Any:
    for key in path:
        target = _step(target, key)
    return target


def _add(target: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, key = _lookup(target, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[key] = value
    elif isinstance(parent, list):
        parent.insert(_index(parent, key, past_end=True), value)
    else:
        raise _BadOperationError(f"nothing can be added at {key!r}")
    return target


def _replace(target: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, key = _lookup(target, path[:-1]), path[-1]
    _step(parent, key)
    parent[_index(parent, key) if isinstance(parent, list) else key] = value
    return target


def _remove(target: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        raise _BadOperationError("the whole object cannot be removed")
    parent, key = _lookup(target, path[:-1]), path[-1]
    removed = _step(parent, key)
    del parent[_index(parent, key) if isinstance(parent, list) else key]
    return target, removed


def _relocate(target: Any, path: list[str], operation: Object, *, keep: bool) -> Any:
    source = operation.get("from")
    if not isinstance(source, str):
        raise _BadOperationError('it needs a "from"')
    if keep:
        value = _copied(_lookup(target, _pointer(source)))
    else:
        target, value = _remove(target, _pointer(source))
    return _add(target, path, value)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
