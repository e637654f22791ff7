"""The scheduler's own log on stderr: lines as kube-scheduler's klog writes them, or one JSON object a line.

`berth run` calls `set_up` once; `set_verbosity` and `set_format` change the running log. Everything logs through the
standard library; `--v` decides what is shown: warnings and milestones always, from 2 on also each pod's fate, from 8 on
also what the libraries log. klog's verbosity n is the level `level(n)`, n below INFO. What is logged about a cycle is
in `cycle_log`. Anything that looks like a secret is removed from every record, whichever module logs it.
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO

import msgspec

from berth.api.redaction import redact

Format = Literal["text", "json"]

LIBRARIES_VERBOSITY = 8
MOST_VERBOSE = 10

_LETTERS: Mapping[int, str] = MappingProxyType(
    {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
)  # everything else is I


def level(verbosity: int) -> int:
    """Return the level of lines that are shown from `--v=verbosity` on."""
    return logging.INFO - min(verbosity, MOST_VERBOSE)


def structured(logger: logging.Logger, at: int, message: str, **fields: Any) -> None:
    """Log a message with named fields, as klog's InfoS does."""
    if logger.isEnabledFor(at):
        logger.log(at, "%s", message, extra={"fields": fields}, stacklevel=2)


class LegibleFormatter(logging.Formatter):
    """In any format, only the first line of a record is not indented; fields follow the message."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        return legible(redact(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        """One record's message in the format, with its fields."""
        record.message = as_text(record)
        return super().formatMessage(record)


class TextFormatter(logging.Formatter):
    """`Lmmdd hh:mm:ss.uuuuuu   pid file:line] message`, as klog; fields follow as `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One record; a bug's traceback follows on lines of its own."""
        when = datetime.fromtimestamp(record.created).astimezone()
        letter = _LETTERS.get(record.levelno, "I")
        place = f"{record.filename}:{record.lineno}"
        line = f"{letter}{when:%m%d %H:%M:%S.%f} {record.process:7d} {place}] {as_text(record)}"
        return legible(redact(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line))


class JsonFormatter(logging.Formatter):
    """`{"ts", "caller", "msg", "v"}` as kube-scheduler's; errors have `err` instead of `v`."""

    def format(self, record: logging.LogRecord) -> str:
        """One record on one line."""
        fields: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower() if record.levelno > logging.INFO else "info",
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno >= logging.ERROR:
            fields["err"] = self.formatException(record.exc_info) if record.exc_info else ""
        else:
            fields["v"] = max(0, logging.INFO - record.levelno)
        return redact(_as_json(fields | getattr(record, "fields", {})))


def _as_json(fields: Mapping[str, object]) -> str:
    """Return an object on one line, whatever is in it: a line that cannot be written would be missed the most."""
    try:
        return msgspec.json.encode(fields).decode()
    except (TypeError, UnicodeEncodeError):  # some other kind of value, or text of bytes that are no UTF-8
        texts = {name: str(value).encode(errors="backslashreplace").decode() for name, value in fields.items()}
        return msgspec.json.encode(texts).decode()


def legible(text: str) -> str:
    """Return a record's text, such that nothing in it can pass for another record or control a terminal.

    Names and messages come from any user who may write objects. Further lines are indented, other characters that
    cannot be printed are escaped.
    """
    if text.isprintable():
        return text
    first, *further = map(_escaped, text.split("\n"))
    return "\n".join([first, *(f"\t{line}" if line else "" for line in further)])


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode() for one in line)


def as_text(record: logging.LogRecord) -> str:
    """Return a record's message, and its fields if it has any, as klog writes them."""
    fields: Mapping[str, Any] | None = getattr(record, "fields", None)
    if fields is None:
        return record.getMessage()
    return " ".join([_quoted(record.getMessage()), *(f"{name}={_value(value)}" for name, value in fields.items())])


def _value(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def set_up(log_format: Format = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Send the log to `stream`, stderr by default, replacing any earlier set-up."""
    logging.getLogger().handlers[:] = [logging.StreamHandler(stream or sys.stderr)]
    set_format(log_format)
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    """Show what `--v=verbosity` shows, from the next line on."""
    logging.getLogger().setLevel(logging.DEBUG if verbosity >= LIBRARIES_VERBOSITY else logging.WARNING)
    logging.getLogger("berth").setLevel(level(verbosity))


def verbosity_now() -> int:
    """Return what `--v` is now; above the most verbose level there is nothing more to show."""
    return max(0, logging.INFO - logging.getLogger("berth").getEffectiveLevel())


def set_format(log_format: Format) -> None:
    """Write the log as `--logging-format` says, from the next line on; handlers set up by others stay as they are."""
    for handler in logging.getLogger().handlers:
        if handler.formatter is None or isinstance(handler.formatter, JsonFormatter | TextFormatter):
            handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())


def format_now() -> Format:
    """Return what `--logging-format` is now."""
    handlers = logging.getLogger().handlers
    return "json" if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers) else "text"
