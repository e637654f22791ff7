"""`/flagz` and `/statusz`: with which flags this process was started, what it is, and since when it runs.

Formats are those of Kubernetes' z-pages, which promise nothing to programs.
"""

import platform
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from berth import __version__
from berth.api.redaction import REDACTED, is_secret, redact_url

COMPONENT = "kube-scheduler"
EMULATED_VERSION = "1.36"
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)


def accepts_text(accept: str) -> bool:
    """Whether an Accept header takes plain text; these pages come in no other form."""
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return not accept.strip() or bool(kinds & {"*/*", "text/*", "text/plain", "text/html"})


def flagz(flags: Mapping[str, str]) -> str:
    """The page of flags: name and value, without secrets."""
    lines = [f"{name}={_shown(name, value)}" for name, value in sorted(flags.items())]
    return "\n".join(["", f"{COMPONENT} flagz", _WARNING, "", *lines, ""])


def _shown(name: str, value: str) -> str:
    if is_secret(name):
        return REDACTED
    return redact_url(value) if "://" in value or "@" in value else value


def statusz(started_at: float, paths: Iterable[str], generation: str, now: float | None = None) -> str:
    """The page of the process: `started_at` and `now` are seconds of the epoch."""
    up_s = int((time.time() if now is None else now) - started_at)
    started = datetime.fromtimestamp(started_at, UTC)
    lines = [
        f"Started: {started:%a %b} {started.day:2d} {started:%H:%M:%S} UTC {started:%Y}",
        f"Up: {up_s // 3600} hr {up_s // 60 % 60:02d} min {up_s % 60:02d} sec",
        f"Python version: {platform.python_version()}",
        f"Binary version: {__version__}",
        f"Emulation version: {generation.removeprefix('v') or EMULATED_VERSION}",
        f"Paths: {' '.join(sorted(paths))}",
    ]
    return "\n".join(["", f"{COMPONENT} statusz", _WARNING, "", *lines, ""])
