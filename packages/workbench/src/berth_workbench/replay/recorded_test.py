"""Recorded decisions as a test: what they were, and what they are now. `berth replay --to-test` writes such tests."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from berth.framework.registry import Registry
from berth.plugins.registry import full_registry
from berth.recording.errors import RecordingError
from berth.recording.file_format import read_segments
from berth_workbench.replay.recording_comparison import RecordingComparer

MOST_CHECKED: Final = 1_000
"""A written test lists no more decisions than that."""
VERSION: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
"""What a version of Berth may look like where it is quoted."""

Decided = tuple[str, str | None]
"""A pod's `namespace/name`, and its node; None where it found none."""


class CheckedDecision(NamedTuple):
    """One decision about a pod: the recorded node, and that of now."""

    pod: str
    recorded: str | None
    now: str | None


def decisions_now(recording: Path, *pods: str, registry: Registry | None = None) -> list[Decided]:
    """Decide about the pods of a recording again, each on the recorded cluster; return the pods with their nodes.

    With `pods` only about these, by `namespace/name`. Where several nodes are equally good and the recorded one is
    among them, it is taken. The plugins are those that are installed, unless a registry is given. Raises
    `RecordingError`, `ConfigError`.
    """
    return [(each.pod, each.now) for each in checked(recording, *pods, registry=registry)]


def checked(recording: Path, *pods: str, registry: Registry | None = None) -> list[CheckedDecision]:
    """Return the same with the recorded nodes."""
    found: list[CheckedDecision] = []
    comparer = RecordingComparer(registry or full_registry())

    def heard(pod: str, recorded: str | None, now: str | None) -> None:
        if not pods or pod in pods:
            found.append(CheckedDecision(pod, recorded, now))

    comparer.heard = heard
    comparer.follow(read_segments(recording))
    return found


def source_of_test(recording: Path, decisions: list[CheckedDecision], version: str, *pods: str) -> str:
    """Return a test that checks these decisions; `recording` lies beside it. Raises `RecordingError`.

    The recorded cluster chose the version and the names in it, so they must stay text in what is written.
    """
    if not decisions:
        raise RecordingError("there is no decision that a test could check")
    listed = "".join(f"    ({_quoted(each.pod)}, {_quoted(each.recorded)}),\n" for each in decisions[:MOST_CHECKED])
    arguments = ", ".join(("RECORDING", *map(_quoted, pods)))
    limit = f"[:{MOST_CHECKED}]" if len(decisions) > MOST_CHECKED else ""
    berth = f"Berth {version}" if VERSION.fullmatch(version) else "Berth"
    return f'''"""What {berth} decided while it was recorded, decided again. By `berth replay --to-test`.

The recording lies beside this file. Each pod is tried on the cluster as it was recorded. Where lots decide between
equally good nodes, the recorded one is taken. So the test fails where a decision is another one.
"""

from pathlib import Path

from berth_workbench.replay.recorded_test import decisions_now

RECORDING = Path(__file__).with_name({_quoted(recording.name)})
RECORDED = [
{listed}]
"""The pods in the order in which they were tried, and their nodes; None where there was none."""


def test_the_recorded_decisions() -> None:
    assert decisions_now({arguments}){limit} == RECORDED
'''


def _quoted(text: str | None) -> str:
    """Return a Python literal in ASCII, on one line."""
    if text is None:
        return "None"
    escaped = text.encode("unicode_escape").decode("ascii")  # backslashes, line ends and lone surrogates, too
    return '"' + escaped.replace('"', '\\"') + '"'
