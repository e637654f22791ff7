"""How long a container that only pretends to run does so, and with which code it exits.

The pod's annotations say it, for all containers or for those that they name; else its command does, where that is
plain. Pure functions over pods as JSON, called by `pod_status`.

    berth.dev/run-seconds: "30"          all containers but init containers and sidecars
    berth.dev/exit-code: "1,0"           the first run exits with 1, all later ones with 0
    berth.dev/exit-code: "setup=3;1"     the container setup with 3, others as above
    berth.dev/ready-seconds: "5"         how long after its start a container is ready
"""

import logging
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from berth_cluster.apimachinery.meta import Object, annotations_of, key_of

logger = logging.getLogger(__name__)

RUN_SECONDS = "berth.dev/run-seconds"
EXIT_CODE = "berth.dev/exit-code"
READY_SECONDS = "berth.dev/ready-seconds"
ANNOTATIONS = (RUN_SECONDS, EXIT_CODE, READY_SECONDS)
ENDLESS = float("inf")
_SHELLS = ("sh", "ash", "bash", "dash")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class ContainerRun(NamedTuple):
    """One run of a container, from its start to its exit."""

    run_s: float
    exit_code: int = 0


class _Ran(NamedTuple):
    run_s: float
    exit_code: int
    is_over: bool = False


def run_of(pod: Object, container: Object, restarts: int, *, is_init: bool, default_s: float) -> ContainerRun:
    """The run after so many restarts. `default_s` is how long a pod that is to end runs if it says nothing."""
    name, is_sidecar = container["name"], is_init and container.get("restartPolicy") == "Always"
    said_s = said_of(pod, RUN_SECONDS, name, restarts, is_named_only=is_init)
    said_code = said_of(pod, EXIT_CODE, name, restarts, is_named_only=is_init)
    plain = plain_run([*(container.get("command") or []), *(container.get("args") or [])])
    if plain is None:
        is_endless = is_sidecar or (not is_init and pod["spec"].get("restartPolicy", "Always") == "Always")
        ends_s = 0.0 if is_init and not is_sidecar else default_s
        plain = ContainerRun(ENDLESS if is_endless and said_code is None else ends_s)
    run_s = plain.run_s if said_s is None else said_s
    return ContainerRun(run_s, plain.exit_code if said_code is None else int(said_code))


def said_of(pod: Object, annotation: str, container: str, run: int, *, is_named_only: bool = False) -> float | None:
    """What an annotation says of one run of a container, None if nothing that is a number."""
    text = annotations_of(pod).get(annotation)
    if text is None:
        return None
    parts = (part.strip().rpartition("=") for part in text.split(";"))
    said = {name.strip(): numbers.split(",") for name, _, numbers in parts}
    numbers = said.get(container) or (None if is_named_only else said.get(""))
    if numbers is None:
        return None
    number = numbers[min(run, len(numbers) - 1)]
    try:
        found = float(number)
    except ValueError:
        found = -1.0
    if found >= 0 and (annotation != EXIT_CODE or found < 256):
        return found
    logger.warning("pod %s: annotation %s: %r is no such number, and is left out", key_of(pod), annotation, number)
    return None


def plain_run(command: Sequence[str]) -> ContainerRun | None:
    """How a command runs that is nothing but `sleep`, `true`, `false`, `echo`, `exit`, or a chain of these in a shell.

    None for any other: what it would do cannot be told without running it.
    """
    if not command:
        return None
    if command[0].rpartition("/")[2] in _SHELLS and len(command) == 3 and command[1] in ("-c", "-ec"):
        return _script(command[2], stops_at_failure=command[1] == "-ec")
    ran = _simple(list(command), 0)
    return None if ran is None or command[0] == "exit" else ContainerRun(ran.run_s, ran.exit_code)


def _script(text: str, *, stops_at_failure: bool) -> ContainerRun | None:
    lexer = shlex.shlex(text.strip().replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        tokens = [*lexer, ";"]
    except ValueError:
        return None
    run_s, code, joint, words = 0.0, 0, ";", list[str]()
    for token in tokens:
        if token not in (";", "&&", "||", ";;"):
            words.append(token)
            continue
        if words and (joint == ";" or (joint == "&&") == (code == 0)):
            ran = _simple(words, code)
            if ran is None:
                return None
            run_s, code = run_s + ran.run_s, ran.exit_code
            if ran.is_over or (stops_at_failure and code and token == ";"):
                break
        joint, words = token[0] if token == ";;" else token, []
    return ContainerRun(run_s, code)


def _simple(words: list[str], code: int) -> _Ran | None:
    """One command after another that ended with `code`; None if it cannot be told what it does."""
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if any(not word.strip("();<>|&") for word in words):
        return None
    if name in ("true", ":", "echo", "printf"):
        return _Ran(0.0, 0)
    if name == "false":
        return _Ran(0.0, 1)
    if name == "exit" and len(arguments) <= 1 and all(each.isdecimal() for each in arguments):
        return _Ran(0.0, int(arguments[0]) % 256 if arguments else code, is_over=True)
    seconds = [_seconds(each) for each in arguments] if name == "sleep" else []
    return None if not seconds or None in seconds else _Ran(sum(filter(None, seconds)), 0)


def _seconds(text: str) -> float | None:
    if text in ("infinity", "inf"):
        return ENDLESS
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return float(number) * unit if number.replace(".", "", 1).isdecimal() else None
