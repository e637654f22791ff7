"""Request bodies: read, decoded, and checked to be what the path says they are."""

import asyncio
import contextlib
from typing import Any

import aiohttp
from aiohttp import web

from berth.api.repetitions import repeated_fields
from berth.serving.connections import limits_of
from berth_cluster.apimachinery.errors import FieldErrors, StoreError, as_json, bad_request, too_large
from berth_cluster.apimachinery.field_checks import FieldCheck, UndecodableError, unknown_fields
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import DELETE_OPTIONS, message
from berth_cluster.serving.negotiation import decode_body, repeated_keys
from berth_cluster.serving.requests import whole
from berth_cluster.storage.field_managers import Writer

MAX_BODY_BYTES = 3 * 1024 * 1024


async def _read_json(request: web.BaseRequest, what: str) -> tuple[Any, bytes]:
    """The body as JSON values, and as it came."""
    body = await _read(request)
    if not body:
        raise bad_request(f"{what}: the request has no body")
    return decode_body(body, request.headers.get("Content-Type", ""), what), body


async def read_object(request: web.BaseRequest, what: str) -> Object:
    """The body as a JSON object."""
    return _object((await _read_json(request, what))[0], what)


def _object(value: Any, what: str) -> Object:
    if not isinstance(value, dict):
        raise bad_request(f"{what}: expected a JSON object, not {type(value).__name__}")
    return value


async def read_typed(request: web.BaseRequest, type_name: str) -> Object:
    """The body as an object of a type that is no stored kind, such as `core.v1.Binding`."""
    return _checked(await read_object(request, type_name.rpartition(".")[2]), type_name)


def _checked(obj: Object, type_name: str) -> Object:
    FieldCheck(type_name.rpartition(".")[2], "v1").run(message(type_name), obj)
    return obj


async def read_body(kind: ResourceType, request: web.BaseRequest, writer: Writer, subresource: str = "") -> Object:
    """An object of a kind; the writer gets warnings about fields that it does not have."""
    value, body = await _read_json(request, kind.kind)
    obj = _object(value, kind.kind)
    if subresource != "scale":
        _check_type(kind, obj)
        writer.warnings.extend(_check_fields(kind, obj, body, request, empties=writer.empties))
    return obj


def is_apply(content_type: str) -> bool:
    """Whether a patch is one for server-side apply."""
    return content_type.startswith("application/apply-patch")


async def read_patch(kind: ResourceType, request: web.BaseRequest, writer: Writer, subresource: str = "") -> Any:
    """A patch; the writer gets warnings about fields that the kind does not have."""
    patch, body = await _read_json(request, "patch")
    if subresource != "scale" and isinstance(patch, dict):
        with contextlib.suppress(UndecodableError):  # which is said of the object that the patch makes
            writer.warnings.extend(_check_fields(kind, patch, body, request, partial=True))
    return patch


def _check_fields(
    kind: ResourceType,
    obj: Object,
    body: bytes,
    request: web.BaseRequest,
    *,
    partial: bool = False,
    empties: Object | None = None,
) -> list[str]:
    """Unknown and duplicate fields: an error, a warning or nothing, as the request's `fieldValidation` says."""
    wanted = request.query.get("fieldValidation", "Warn")
    if wanted not in ("Strict", "Warn", "Ignore"):
        raise bad_request(
            f'fieldValidation: Unsupported value: "{wanted}": supported values: "Ignore", "Strict", "Warn"'
        )
    applies = partial and is_apply(request.headers.get("Content-Type", ""))
    is_told = "fieldValidation" in request.query and wanted != "Ignore"
    is_yaml = "yaml" in request.headers.get("Content-Type", "")
    repeated = repeated_fields(body, obj) if is_told and not is_yaml else []  # before `obj` is pruned
    # What is applied has to have the fields of its type, whatever the request says (see `field_managers`).
    found = [] if applies else unknown_fields(kind, obj, partial=partial, empties=empties)
    found.extend(f'duplicate field "{path}"' for path in repeated)
    if is_told and is_yaml:
        repeated = repeated_keys(body)
        said = ["\n  ".join(("yaml: unmarshal errors:", *repeated))] if repeated else []
        found = [*(said if wanted == "Strict" else repeated), *found]
    if found and wanted == "Strict":
        why = f"strict decoding error: {', '.join(found)}"
        if partial and not applies:
            errors = FieldErrors()  # as upstream, where it is the patched object that cannot be decoded
            errors.invalid("patch", as_json(obj), why)
            raise errors.refusal("", "", "")
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')
    return found if wanted == "Warn" else []


async def delete_options(request: web.BaseRequest) -> Object:
    """The DeleteOptions in the body and the query."""
    body = await _read(request)
    options: Any = decode_body(body, request.headers.get("Content-Type", ""), "DeleteOptions") if body else {}
    if not isinstance(options, dict):
        raise bad_request("DeleteOptions must be a JSON object")
    query = request.query if not body else {}  # which says nothing beside a body
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = whole(query, "gracePeriodSeconds")
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    return _checked(options, DELETE_OPTIONS)


async def _read(request: web.BaseRequest) -> bytes:
    """The whole body; 413 as soon as it is known to be too long, 408 when it takes too long."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise _too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(limits_of(request).body_s):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise _too_long()
    except TimeoutError:
        raise StoreError(408, "Timeout", "the body of the request did not arrive in time") from None
    except (web.RequestPayloadError, aiohttp.ClientPayloadError, ValueError) as error:
        raise bad_request(f"the body of the request is broken: {error}") from None
    return bytes(body)


def _too_long() -> StoreError:
    return too_large(f"Request entity too large: limit is {MAX_BODY_BYTES}")


def _check_type(kind: ResourceType, obj: Object) -> None:
    said_kind, said_version = obj.get("kind"), obj.get("apiVersion")
    if kind.is_custom and not said_kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        )
    if said_kind not in (None, "", kind.kind):
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): it says kind {said_kind!r}"
        )
    if said_version != kind.api_version and (said_version or kind.is_custom):
        raise bad_request(
            f"the API version in the data ({said_version or ''}) does not match the expected API version "
            f"({kind.api_version})"
        )
