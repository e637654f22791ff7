"""Configuration errors: upstream's field errors as text, gathered into one exception.

Everything in `config/` and the `validate` method of plugin args builds its messages with the functions here,
so that each names the field path first and then what is wrong with it. `ConfigError` carries them to the
command line.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from berth.api.redaction import redact_document
from berth.api.user_error import UserError

_FIELD = re.compile(r"([\w-]{1,200})(?:\[\d{1,9}\]){0,9}$")


class ConfigError(UserError, ValueError):
    """A configuration that cannot be used. `errors` has a sentence for each fault, `source` names the file."""

    exit_code: ClassVar[int] = 2

    def __init__(self, errors: Iterable[str], source: str = "") -> None:
        """Keep the single errors, so that callers can list or merge them."""
        self.errors: tuple[str, ...] = tuple(errors)
        self.source = source
        super().__init__(_joined(self.errors, source))

    def located(self, source: str) -> "ConfigError":
        """Return the same errors as errors of `source`."""
        return ConfigError(self.errors, source)


@contextmanager
def errors_in(source: str) -> Iterator[None]:
    """Have errors that name no file name this one."""
    try:
        yield
    except ConfigError as error:
        raise error if error.source else error.located(source) from None


def _joined(errors: tuple[str, ...], source: str) -> str:
    """One line for one error, a list for several."""
    where = f"{source}: " if source else ""
    if len(errors) == 1:
        return where + errors[0]
    return where + f"{len(errors)} errors:\n" + "\n".join(f"  - {error}" for error in errors)


def shown(value: object, path: str = "") -> str:
    """Return a value as the document would write it: quoted strings, true/false, null, JSON for the rest.

    Secrets in it are left out; `path` is the field that holds it.
    """
    field = _FIELD.search(path)
    value = redact_document(value, field[1] if field else "")
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def invalid(path: str, value: object, detail: str) -> str:
    """A sentence for a value of the right type that is not allowed."""
    return f"{path}: Invalid value: {shown(value, path)}: {detail}"


def required(path: str, detail: str = "") -> str:
    """A sentence for a field that must be set and is not."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    """A sentence for a field that must not be set here."""
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: object) -> str:
    """A sentence for a value that may appear only once and appears again."""
    return f"{path}: Duplicate value: {shown(value, path)}"


def unsupported(path: str, value: object, supported: Iterable[str]) -> str:
    """A sentence for a value that is not one of a closed set."""
    return f"{path}: Unsupported value: {shown(value, path)}: supported values: " + ", ".join(map(shown, supported))
