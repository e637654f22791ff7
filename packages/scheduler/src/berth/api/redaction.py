"""Leaves passwords, tokens and private keys out of whatever is shown: the one place that says what a secret looks like.

Configuration, kubeconfigs, URLs, headers and what credential plugins print become text in many places: `/configz` and
`--write-config-to`, errors, log lines, events, explanations. All of them go through one of the functions here.
`redact_document` is for values with named fields, `redact_url` for one URL, and `redact` for running text, in which
secrets are found by their form and, where the caller knows which they are, by their value. Structs that hold secrets
are `Concealed`.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

REDACTED = "[redacted]"
"""Stands in the place of a secret. It is no base64 and no user name, so a document that holds it is refused if read."""

SHORTEST_KNOWN = 4
"""Known secrets that are shorter are not looked for: they would be found all over a text, and hardly protect anything.
"""

_SECRET_NAME = re.compile(
    r"(?:pass(?:word|wd|phrase)?|token|secret|credentials?|authorization|cookie|private[-_]?key|api[-_]?key"
    r"|access[-_]?key|client[-_]?key|signing[-_]?key|encryption[-_]?key|key[-_]?data|auth)$",
    re.IGNORECASE,
)
# Lengths are bounded, so that no text takes more than linear time. Python 3.11.2 mistakes groups that are repeated
# possessively, so there are none.
_IN_TEXT = re.compile(
    r"""
    (?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,20}://)                  # userinfo of a URL, as it should be written …
    (?:[^\s/?\#"'<>]{0,2000}@
      |[^\s/?\#@"'<>:\[\]]{0,200}:(?!\d{1,5}(?:[/?\#\s"']|$))[^\s@"'<>]{0,2000}@)   # … and with a raw / in the password
    |(?P<query>[?&](?:[\w-]{0,40}(?:token|password|passwd|secret|key|sig|signature|auth)|code)=)[^\s&"'<>\#]{1,4000}
    |(?P<header>\b(?:proxy-)?authorization["']?\s{0,3}[:=]\s{0,3}["']?(?:(?:bearer|basic|digest|negotiate)\s{1,3})?)
      [^\s"',;]{1,8000}
    |(?P<bearer>\bbearer\s{1,3})(?=[^\s"']{0,8000}[\d._-])[^\s"',;]{12,8000}
    |\beyJ[\w-]{8,8000}\.[\w-]{8,8000}(?:\.[\w-]{0,4000})?        # a JWT
    |-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----(?:[A-Z0-9+/=\s\\:,.]|-(?!-)){0,20000}(?:-----END\ [A-Z ]{0,40}-----)?
    |\bLS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,40000}                     # PEM in base64, as kubeconfigs hold it
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MAY_HOLD_ONE = re.compile(r"://|[?&]\w|uthorization|earer\s|eyJ|-----BEGIN|LS0tLS1CRUdJTi", re.IGNORECASE)


class Concealed(msgspec.Struct, frozen=True):
    """Base of structs that hold secrets: none of their fields is shown, wherever they are printed."""

    def __repr__(self) -> str:
        """Return the name of the struct only."""
        return f"{type(self).__name__}({REDACTED})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show as little where rich prints it."""
        return []


def redact(text: str, *known: str) -> str:
    """Return a text without what looks like a secret, and without the `known` ones wherever they stand in it."""
    for secret in sorted(filter(None, known), key=len, reverse=True):
        if len(secret) >= SHORTEST_KNOWN:
            text = text.replace(secret, REDACTED)
    return _IN_TEXT.sub(_without_secret, text) if _MAY_HOLD_ONE.search(text) else text


def _without_secret(found: "re.Match[str]") -> str:
    if found["scheme"]:
        return f"{found['scheme']}{REDACTED}@"
    return (found["query"] or found["header"] or found["bearer"] or "") + REDACTED


def redact_url(url: str) -> str:
    """Return a URL without user name and password, and without the values of its query; it need not be a good one."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "", url
    address, question, query = rest.partition("?")
    if "@" in address:
        address = f"{REDACTED}@{address.rpartition('@')[2]}" if _has_userinfo(address) else address
    return scheme + mark + address + question + "&".join(map(_without_value, query.split("&")))


def _has_userinfo(address: str) -> bool:
    """Whether the `@` in an address without its scheme ends a user name, maybe behind a password with a raw slash."""
    authority, _, _ = address.partition("/")
    return "@" in authority or not re.fullmatch(r"(?:\[[^\]]*\]|[^:]*)(?::\d{0,5})?", authority)


def _without_value(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={REDACTED}" if equals else part


def redact_document(value: Any, name: str = "") -> Any:
    """Return a JSON value as it may be shown: `name` is the field that holds it, and secrets are known by their fields.

    Everything below such a field is a secret. What is unset or a boolean stays as it is, since it tells nothing.
    """
    if isinstance(value, Mapping):
        return {key: redact_document(part, name if is_secret(name) else str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [redact_document(item, name) for item in value]
    if value and not isinstance(value, bool) and is_secret(name):
        return REDACTED
    return redact(value) if isinstance(value, str) else value


def is_secret(name: str) -> bool:
    """Say whether a field of this name holds a secret: `password` does, `passwordFile` and `secretName` do not."""
    return _SECRET_NAME.search(name) is not None
