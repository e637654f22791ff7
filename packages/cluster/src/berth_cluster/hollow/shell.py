"""What a small shell script does, told without running it: how long it takes, how it ends, which files it makes.

Understood are `sleep`, `true`, `false`, `echo`, `exit`, `touch`, tests of texts, whole numbers and files, `if`, chains
with `;`, `&&` and `||`, loops that never end, the variables of the container, and sums in `$((…))` and `expr`. A script
that comes to anything else is unknown: what it would do cannot be told without running it. Called by `container_runs`.
"""

import operator
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

ENDLESS = float("inf")
_SEPARATORS = frozenset({";", "&&", "||"})
_UNITS = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})
_QUIET = frozenset({"true", ":", "echo", "printf", "trap"})
_OF_SHELLS = frozenset({"exit", "trap", ":", "!", "[["})
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")
_SUM = r"\s*(-?\d+)\s*\\?([-+*/%])\s*(-?\d+)\s*"
_CALCULATION = re.compile(rf"\$\(\({_SUM}\)\)|\$\(\s*expr{_SUM}\)")
_OPERATORS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv, "%": operator.mod}
)
_TEXTS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {"=": operator.eq, "==": operator.eq, "!=": operator.ne}
)
_NUMBERS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
)


class ScriptFiles(Protocol):
    """The files that a script may ask for."""

    def has(self, path: str) -> bool | None:
        """Whether there is one; None where nobody can know."""

    def touch(self, path: str) -> None:
        """Make one."""


class ScriptOutcome(NamedTuple):
    """How long a script takes, and the code that it exits with."""

    run_s: float
    exit_code: int


class _UnknownError(Exception):
    """The script comes to something that is not understood."""


def run_script(
    text: str, variables: Mapping[str, str], files: ScriptFiles, *, stops_at_failure: bool
) -> ScriptOutcome | None:
    """What a script comes to; None if that cannot be told. `stops_at_failure` is what `sh -e` asks for."""
    try:
        run = _Run(_tokens(text, variables), files, stops_at_failure=stops_at_failure)
        run.list(frozenset(), runs=True)
    except (_UnknownError, IndexError, ValueError, ZeroDivisionError, RecursionError):
        return None
    return ScriptOutcome(run.run_s, run.code)


def run_command(words: Sequence[str], files: ScriptFiles) -> ScriptOutcome | None:
    """The same of a program with its arguments, which a shell is not there to understand."""
    run = _Run([], files, stops_at_failure=False)
    try:
        run.simple(words)
    except (_UnknownError, IndexError, ValueError, RecursionError):
        return None
    return None if words[0] in _OF_SHELLS else ScriptOutcome(run.run_s, run.code)


def _tokens(text: str, variables: Mapping[str, str]) -> list[str]:
    def value(match: re.Match[str]) -> str:
        found = variables.get(match[1] or match[2])
        if found is None:
            raise _UnknownError
        return found

    def result(match: re.Match[str]) -> str:
        left, sign, right = (part for part in match.groups() if part is not None)
        return str(_OPERATORS[sign](int(left), int(right)))

    lines = (line.strip() for line in _CALCULATION.sub(result, _VARIABLE.sub(value, text)).splitlines())
    lexer = shlex.shlex(" ; ".join(filter(None, lines)), posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    return list(lexer)


class _Run:
    """Goes through the tokens of a script once; what is in branches that are not taken is passed over."""

    __slots__ = ("_at", "_files", "_stops_at_failure", "_tokens", "code", "is_over", "run_s")

    def __init__(self, tokens: list[str], files: ScriptFiles, *, stops_at_failure: bool) -> None:
        self._tokens, self._at, self._files = tokens, 0, files
        self._stops_at_failure = stops_at_failure
        self.run_s, self.code, self.is_over = 0.0, 0, False

    def list(self, ends: frozenset[str], *, runs: bool) -> None:
        """Commands up to one of the words that end them, or to the end."""
        joint = ";"
        while self._at < len(self._tokens) and self._tokens[self._at] not in ends:
            token = self._tokens[self._at]
            if token in _SEPARATORS:
                joint, self._at = token, self._at + 1
                continue
            has_turn = runs and not self.is_over and (joint == ";" or (joint == "&&") == (self.code == 0))
            self._command(has_turn)
            is_last = self._tokens[self._at : self._at + 1] in ([], [";"])
            self.is_over |= has_turn and self._stops_at_failure and bool(self.code) and is_last

    def _command(self, has_turn: bool) -> None:
        word = self._tokens[self._at]
        if word == "if":
            self._branches(has_turn)
        elif word in ("while", "until"):
            self._loop(has_turn, word)
        else:
            start = self._at
            while self._at < len(self._tokens) and self._tokens[self._at] not in _SEPARATORS:
                self._at += 1
            if has_turn:
                self.simple(self._tokens[start : self._at])

    def _branches(self, has_turn: bool) -> None:
        """From `if`, or `elif`, to `fi`."""
        is_taken = self._condition(has_turn, "then")
        self.list(frozenset({"elif", "else", "fi"}), runs=is_taken)
        if self._tokens[self._at] == "elif":
            self._branches(has_turn and not is_taken)
            return
        has_else = self._tokens[self._at] == "else"
        if has_else:
            self._at += 1
            self.list(frozenset({"fi"}), runs=has_turn and not is_taken)
        elif has_turn and not is_taken:
            self.code = 0
        self._take("fi")

    def _loop(self, has_turn: bool, word: str) -> None:
        """What a loop does it does for ever, since nothing here changes what its condition asks for."""
        is_true = self._condition(has_turn, "do")
        goes_on = has_turn and not self.is_over and is_true == (word == "while")
        self.list(frozenset({"done"}), runs=goes_on)
        self._take("done")
        if goes_on and not self.is_over:
            self.run_s, self.is_over = ENDLESS, True
        elif has_turn and not self.is_over:
            self.code = 0

    def _condition(self, has_turn: bool, end: str) -> bool:
        """Whether what stands between this word and `end` succeeds."""
        self._at += 1
        stops, self._stops_at_failure = self._stops_at_failure, False
        self.list(frozenset({end}), runs=has_turn)
        self._stops_at_failure = stops
        self._take(end)
        return has_turn and not self.is_over and self.code == 0

    def _take(self, word: str) -> None:
        if self._tokens[self._at] != word:
            raise _UnknownError
        self._at += 1

    def simple(self, words: Sequence[str]) -> None:
        """One command with its arguments."""
        if any(not word.strip("();<>|&") for word in words if word):
            raise _UnknownError
        name, arguments = words[0].rpartition("/")[2], words[1:]
        if name == "!":
            self.simple(arguments)
            self.code = int(not self.code)
        elif name in _QUIET:
            self.code = 0
        elif name == "false":
            self.code = 1
        elif name in ("[", "[[", "test"):
            self.code = int(not self._test(arguments if name == "test" else arguments[:-1]))
        elif name == "touch" and arguments:
            for path in arguments:
                self._files.touch(path)
            self.code = 0
        elif name == "sleep" and arguments:
            self.run_s, self.code = self.run_s + sum(_seconds(each) for each in arguments), 0
            self.is_over |= self.run_s == ENDLESS
        elif name == "exit" and len(arguments) <= 1:
            self.code, self.is_over = int(arguments[0]) % 256 if arguments else self.code, True
        else:
            raise _UnknownError

    def _test(self, words: Sequence[str]) -> bool:
        if len(words) > 1 and words[0] == "!":
            return not self._test(words[1:])
        if len(words) == 1:
            return bool(words[0])
        if len(words) == 2 and words[0] in ("-n", "-z"):
            return bool(words[1]) == (words[0] == "-n")
        if len(words) == 2 and words[0] in ("-e", "-f", "-r"):
            found = self._files.has(words[1])
            if found is not None:
                return found
        if len(words) == 3 and words[1] in _TEXTS:
            return _TEXTS[words[1]](words[0], words[2])
        if len(words) == 3 and words[1] in _NUMBERS:
            return _NUMBERS[words[1]](int(words[0]), int(words[2]))
        raise _UnknownError


def _seconds(text: str) -> float:
    if text in ("infinity", "inf"):
        return ENDLESS
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not number.replace(".", "", 1).isdecimal():
        raise _UnknownError
    return float(number) * unit
