"""Answers as bytes: JSON objects, lists built from shared encodings, `metav1.Status`."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from aiohttp import HttpVersion11, web

from berth_cluster.apimachinery import protobuf_writing
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.protobuf import MEDIA_TYPE as PROTOBUF
from berth_cluster.apimachinery.resource_types import ResourceType

encode = msgspec.json.Encoder().encode

MAX_WHOLE_BYTES = 256 * 1024  # of an answer that is sent in one piece
_JSON = "application/json"
# Clients accept only so many headers (Python's own a hundred), hence the first limit; the other two are upstream's.
_MAX_WARNINGS = 50
_MAX_WARNINGS_CHARACTERS = 4096
_MAX_WARNING_CHARACTERS = 256


def json_response(body: Any, status: int = 200, content_type: str = _JSON) -> web.Response:
    """Any JSON value."""
    return web.Response(body=encode(body), status=status, headers={"Content-Type": content_type})


def bytes_response(body: bytes, status: int = 200, media_type: str = _JSON) -> web.Response:
    """An answer that is already encoded."""
    return web.Response(body=body, status=status, headers={"Content-Type": media_type})


async def streamed_response(
    request: web.BaseRequest, parts: Iterator[bytes], media_type: str = _JSON
) -> web.StreamResponse:
    """An answer in pieces: sent as they come if it is long, so that neither memory nor others pay for it."""
    begun = bytearray()
    for part in parts:
        begun += part
        if len(begun) > MAX_WHOLE_BYTES:
            break
        if not part:  # it takes time to make the first one
            await asyncio.sleep(0)
    else:
        return bytes_response(bytes(begun), media_type=media_type)
    response = web.StreamResponse(headers={"Content-Type": media_type})
    begin_chunks(response, request)
    await response.prepare(request)
    await response.write(bytes(begun))
    for part in parts:
        await response.write(part)
        await asyncio.sleep(0)  # a client that reads fast never makes `write` wait
    return response


def preferred(response: web.StreamResponse, accept: str) -> web.StreamResponse:
    """The answer in protobuf, where the client prefers that and it is an object in JSON that has a form in it."""
    if not accept.startswith(PROTOBUF) or not isinstance(response, web.Response) or response.content_type != _JSON:
        return response
    body = msgspec.json.decode(response.body or b"null")  # type: ignore[arg-type]
    encoded = protobuf_writing.encode(body) if isinstance(body, dict) else None
    if encoded is not None:
        response.body, response.headers["Content-Type"] = encoded, PROTOBUF
    return response


def begin_chunks(response: web.StreamResponse, request: web.BaseRequest) -> None:
    """Send the answer in chunks, where the client knows them; else it ends with the connection."""
    if request.version >= HttpVersion11:
        response.enable_chunked_encoding()


def error_response(error: StoreError) -> web.Response:
    """A refusal as a Status; with Retry-After if the refusal says when to try again."""
    response = json_response(error.to_status(), error.status_code)
    retry_after_s = (error.details or {}).get("retryAfterSeconds")
    if retry_after_s:
        response.headers["Retry-After"] = str(retry_after_s)
    if error.status_code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def add_warnings(response: web.Response, warnings: list[str]) -> web.Response:
    """The answer with Warning headers: all of them if they fit, else the first ones, shortened."""
    shown = [_without_controls(warning) for warning in warnings[:_MAX_WARNINGS]]
    if sum(map(len, shown)) > _MAX_WARNINGS_CHARACTERS:
        shown = [text[:_MAX_WARNING_CHARACTERS] for text in shown]
    left = _MAX_WARNINGS_CHARACTERS
    for text in shown:
        left -= len(text)
        if left < 0:
            break
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _without_controls(text: str) -> str:
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def success(kind: ResourceType | None = None, meta: dict[str, Any] | None = None, code: int = 200) -> web.Response:
    """The Status of a request that succeeded and has no object to answer with."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if kind is not None and meta is not None:
        details = {"name": meta["name"], "group": kind.group, "kind": kind.plural, "uid": meta["uid"]}
        status["details"] = {key: value for key, value in details.items() if value}
    if code != 200:
        status["code"] = code
    return json_response(status, code)


def list_meta(revision: int, continue_token: str = "", remaining: int | None = None) -> dict[str, Any]:
    """The metadata of a list."""
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if continue_token:
        meta["continue"] = continue_token
        if remaining is not None:
            meta["remainingItemCount"] = remaining
    return meta


def metadata_only(meta: dict[str, Any]) -> dict[str, Any]:
    """The PartialObjectMetadata of an object with this metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
