"""`PUT /debug/flags/v` and `/debug/flags/logging-format`: the log of a running scheduler, changed without a restart.

The first is what every Kubernetes component serves, with its answers (k8s.io/apiserver/pkg/server/routes, flags.go);
the second is ours. GET tells the present value.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast, get_args

from aiohttp import web

from berth.runtime.observing import logs

_log = logging.getLogger("berth.scheduler")

MOST_BYTES = 64
"""So long a value may be; every one that means something is shorter."""


class LogFlag(NamedTuple):
    """One flag: what it is now, and what sets it, which returns a sentence or raises ValueError with one."""

    now: Callable[[], str]
    put: Callable[[str], str]

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a GET or a PUT."""
        if request.method in ("GET", "HEAD"):
            return web.Response(text=f"{self.now()}\n")
        if request.method != "PUT":
            return web.Response(status=406, text="unsupported http method\n")
        body = await request.content.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            return web.Response(status=400, text=f"the value is longer than {MOST_BYTES} bytes\n")
        try:
            told = self.put(body.decode(errors="replace").strip())
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        _log.info("%s, as somebody asked for at %s", told, request.path)
        return web.Response(text=f"{told}\n")


def set_v(text: str) -> str:
    """Set the verbosity."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f'failed set klog.logging.verbosity {text}: "{text}" is no number of 0 or more')
    logs.set_verbosity(int(text))
    return f"successfully set klog.logging.verbosity to {text}"


def set_logging_format(text: str) -> str:
    """Set the format."""
    if text not in get_args(logs.Format):
        raise ValueError(f'failed to set the logging format: "{text}" is neither text nor json')
    logs.set_format(cast("logs.Format", text))
    return f"successfully set the logging format to {text}"


LOG_FLAGS: Mapping[str, LogFlag] = MappingProxyType(
    {
        "/debug/flags/v": LogFlag(lambda: str(logs.verbosity_now()), set_v),
        "/debug/flags/logging-format": LogFlag(logs.format_now, set_logging_format),
    }
)
"""The flags by the paths they are served at."""
