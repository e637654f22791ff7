"""`-o jsonpath=TEMPLATE`, in the syntax of kubectl: text, and expressions in braces that are looked up in the answer.

`{.pods[*].pod}` is a path, `{"\\n"}` a string with Go's escapes, and `{range PATH}…{end}` repeats what is between for
each value of a path; paths within it begin at that value, unless they begin with `$`. The paths themselves are those of
RFC 9535, which python-jsonpath evaluates; where kubectl writes names otherwise (`.a-b`, `.kubernetes\\.io/zone`), they
are put into brackets first.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from berth.api.near_names import nearest
from berth.api.user_error import UserError
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

_NAME = re.compile(r"\.((?:[^.\[\]\\\s*]|\\.)+)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TemplateError(UserError):
    """A template that cannot be read, or that asks for what no answer has."""


class _Path(NamedTuple):
    written: str
    first: str
    """The field that it begins with; empty where it begins with something else."""
    is_from_root: bool
    compiled: "JSONPath | CompoundJSONPath"

    def values(self, root: Any, here: Any) -> list[Any]:
        """Return what is found; a field that the whole answer does not have is an error and not nothing."""
        start = root if self.is_from_root else here
        found: list[Any] = self.compiled.findall(start)
        if not found and start is root and self.first and isinstance(root, dict) and self.first not in root:
            hint = nearest(self.first, root) or f"; it has {', '.join(root)}"
            raise TemplateError(f"-o jsonpath: {{{self.written}}}: the answer has no field {self.first!r}{hint}")
        return found


class _Range(NamedTuple):
    path: _Path
    parts: "list[_Part]"


_Part = str | _Path | _Range


class Template:
    """A template that can be filled in. What of it comes from the answer cannot steer a terminal."""

    __slots__ = ("_parts",)

    def __init__(self, text: str) -> None:
        """Read a template; as with kubectl, one without braces is a single path. Raises `TemplateError`."""
        written = text if "{" in text else f"{{{text}}}"
        if not text.strip():
            raise TemplateError("-o jsonpath=TEMPLATE: the template is missing, as in jsonpath='{.pods[*].pod}'")
        open_ranges: list[_Range] = []
        self._parts: list[_Part] = []
        parts = self._parts
        for is_expression, token in _tokens(written):
            if not is_expression:
                parts.append(token)
            elif token == "end":
                if not open_ranges:
                    raise TemplateError("-o jsonpath: {end} without {range …} before it")
                open_ranges.pop()
                parts = open_ranges[-1].parts if open_ranges else self._parts
            elif token.startswith("range ") or token == "range":
                repeated = _Range(_path(token.removeprefix("range").strip()), [])
                parts.append(repeated)
                open_ranges.append(repeated)
                parts = repeated.parts
            else:
                parts.append(_string(token) if token[:1] in ("'", '"') else _path(token))
        if open_ranges:
            raise TemplateError(f"-o jsonpath: {{range {open_ranges[-1].path.written}}} has no {{end}}")

    def filled(self, answer: Any) -> str:
        """Return the text for an answer of JSON values. Raises `TemplateError`."""
        return "".join(_filled(self._parts, answer, answer))


def _filled(parts: Sequence[_Part], root: Any, here: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for value in part.path.values(root, here):
                yield from _filled(part.parts, root, value)
        else:
            yield " ".join(map(_shown, part.values(root, here)))


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return legible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


# -- reading -----------------------------------------------------------------------------------------------------------


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Yield text, and what is between braces (then with True)."""
    at = 0
    while at < len(text):
        brace = text.find("{", at)
        if brace != at:
            yield False, text[at : brace if brace >= 0 else len(text)]
        if brace < 0:
            return
        end = _end_of(text, brace + 1, "}")
        if end < 0:
            raise TemplateError(f"-o jsonpath: {text[brace:]} has no closing brace")
        yield True, text[brace + 1 : end].strip()
        at = end + 1


def _end_of(text: str, at: int, closing: str) -> int:
    """Return where a bracket closes that is open before `at`, strings and inner ones aside; -1 where it does not."""
    depth, quote = 0, ""
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign == closing and not depth:
            return at
        elif sign in "[(":
            depth += 1
        elif sign in "])":
            depth -= 1
        at += 1
    return -1


def _string(written: str) -> str:
    r"""Return what a quoted string means; `"\n"` is a line break."""
    body = written[1:-1].replace('"', '\\"') if written.startswith("'") else written[1:-1]
    try:
        found = json.loads(f'"{body}"')
    except ValueError:
        raise TemplateError(f"-o jsonpath: {{{written}}} is no string") from None
    return str(found)


def _path(written: str) -> _Path:
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    if written[:1] not in (".", "[", "$", "@"):
        raise TemplateError(
            f"-o jsonpath: {{{written}}} is not supported: a path such as {{.pods[*].pod}}, a string in quotes, "
            "{range PATH} or {end} is expected"
        )
    rest = written[1:] if written[0] in "$@" else written
    standard = "$" if rest in ("", ".") else "$" + "".join(_steps(rest))
    try:
        compiled = JSONPathEnvironment(strict=True).compile(standard)
    except JSONPathError as error:
        said = str(error).splitlines()[0]
        raise TemplateError(f"-o jsonpath: {{{written}}} is not supported: {said}") from None
    first = _NAME.match(rest)
    return _Path(written, _unescaped(first[1]) if first else "", written[0] == "$", compiled)


def _steps(path: str) -> Iterator[str]:
    """Yield the steps of a path as the RFC writes them."""
    at = 0
    while at < len(path):
        name = _NAME.match(path, at)
        if name is not None:
            word = _unescaped(name[1])
            yield f".{word}" if _PLAIN_NAME.fullmatch(word) else f"[{json.dumps(word)}]"
            at = name.end()
        elif path[at] == "[":
            end = _end_of(path, at + 1, "]")
            end = len(path) - 1 if end < 0 else end
            yield path[at : end + 1]
            at = end + 1
        else:
            yield path[at]
            at += 1


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
