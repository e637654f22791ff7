"""The scheduler's own log on stderr: lines as kube-scheduler's klog writes them, or one JSON object a line.

`berth run` calls `set_up` once. Everything logs through the standard library; `--v` decides from where on it is
shown: warnings and milestones always, from 2 on each pod's fate too, from 8 on what the libraries have to say.
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO

import msgspec

from berth.cycle.decision import Decision
from berth.framework.extenders import Asked
from berth.framework.instrument import Instrument
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

Format = Literal["text", "json"]

DEBUG_VERBOSITY = 2
LIBRARIES_VERBOSITY = 8

_log = logging.getLogger("berth.scheduler")

_LETTERS: Mapping[int, str] = MappingProxyType(
    {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
)


class SchedulerLog(Instrument):
    """Logs each pod's fate where that is asked for, and the bugs that end attempts, with their tracebacks, always."""

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt that found no node; one that did is told when the pod is bound."""
        if decision.chosen is None:
            _log.debug(
                "unable to schedule pod %s, attempt %d: %s", decision.pod.key, decision.attempts, decision.message
            )

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """A pod is on its node."""
        _log.debug("bound pod %s to node %s, attempt %d", queued.pod.key, node_name, queued.attempts)

    def binding_failed(self, pod: PodInfo, reason: str) -> None:
        """A pod is not on the node chosen for it."""
        _log.debug("pod %s was chosen a node, but not bound: %s", pod.key, reason)

    def extender_failed(self, pod: PodInfo, asked: Asked) -> None:
        """An extender failed: an operator has to know, whether or not the pod was scheduled all the same."""
        outcome = "going on without it" if asked.is_ignored else "the pod is tried again"
        _log.warning(
            "extender %s failed to %s pod %s, %s: %s", asked.extender, asked.verb, pod.key, outcome, asked.problem
        )

    def broke(self, pod: PodInfo, error: Exception) -> None:
        """Tell of a bug; the pod is tried again later."""
        _log.error("scheduling pod %s hit a bug", pod.key, exc_info=error)


class TextFormatter(logging.Formatter):
    """`Lmmdd hh:mm:ss.uuuuuu   pid file:line] message`, as klog."""

    def format(self, record: logging.LogRecord) -> str:
        """One record; a bug's traceback follows on lines of its own."""
        when = datetime.fromtimestamp(record.created).astimezone()
        letter = _LETTERS.get(record.levelno, "I")
        place = f"{record.filename}:{record.lineno}"
        line = f"{letter}{when:%m%d %H:%M:%S.%f} {record.process:7d} {place}] {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """`{"ts", "caller", "msg", "v"}` as kube-scheduler's; errors have `err` instead of `v`."""

    def format(self, record: logging.LogRecord) -> str:
        """One record on one line."""
        fields: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno >= logging.ERROR:
            fields["err"] = self.formatException(record.exc_info) if record.exc_info else ""
        else:
            fields["v"] = DEBUG_VERBOSITY if record.levelno <= logging.DEBUG else 0
        return msgspec.json.encode(fields).decode()


def set_up(log_format: Format = "text", verbosity: int = 0, stream: TextIO | None = None) -> None:
    """Send the log to `stream`, stderr by default, in place of what was set up before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= LIBRARIES_VERBOSITY else logging.WARNING)
    logging.getLogger("berth").setLevel(logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO)
