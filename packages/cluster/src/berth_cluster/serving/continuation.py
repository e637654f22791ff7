"""Paged lists: what a `continue` token says.

A token holds the revision of the whole list and the last object of the page. All pages so show the cluster at one
revision, and the server keeps nothing between two pages.
"""

import base64
import binascii

import msgspec

from berth_cluster.apimachinery.errors import bad_request


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page starts."""

    revision: int
    namespace: str
    name: str


def decode_token(token: str) -> Position:
    """Read a token that this server gave out."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=Position)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise bad_request("continue key is not valid: use a token that a list of this server gave") from None


def encode_token(position: Position) -> str:
    """The token that names a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()
