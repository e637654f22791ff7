"""Paged lists: what a `continue` token says, and how a page is cut.

A token holds the revision of the whole list and the last object of the page. All pages so show the cluster at one
revision, and the server keeps nothing between two pages.
"""

import base64
import binascii
from typing import NamedTuple

import msgspec

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.storage.watch import Entry


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page starts."""

    revision: int
    namespace: str
    name: str


class Page(NamedTuple):
    """One page and the token for the next, empty at the end."""

    entries: list[Entry]
    continue_token: str
    remaining: int


def decode_token(token: str) -> Position:
    """Read a token that this server gave out."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=Position)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise bad_request("continue key is not valid: use a token that a list of this server gave") from None


def cut(entries: list[Entry], revision: int, limit: int, after: Position | None) -> Page:
    """The page of sorted `entries` that follows a position."""
    if after is not None:
        last = (after.namespace, after.name)
        entries = [entry for entry in entries if _place(entry) > last]
    if not limit or len(entries) <= limit:
        return Page(entries, "", 0)
    page = entries[:limit]
    position = Position(revision, *_place(page[-1]))
    token = base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()
    return Page(page, token, len(entries) - limit)


def _place(entry: Entry) -> tuple[str, str]:
    meta = entry.obj["metadata"]
    return (meta.get("namespace", ""), meta["name"])
