"""Label, namespace and field selectors: compiled once, matched often.

`LabelSelector` structs and selector text (`app=web,tier in (a,b),!old`) both become a `Selector`, a hashable value
made of `Requirement`s. One function, `Requirement.accepts`, says what an operator means; columns evaluate it once per
distinct label value, scalar code once per object. Semantics: k8s.io/apimachinery/pkg/labels.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from berth.api.meta import LabelSelector
from berth.api.untrusted import shortened
from berth.api.user_error import UserError

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")

_INTEGER = re.compile(r"[+-]?\d{1,64}", re.ASCII)
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN = 253
_MAX_VALUE = 63
_MAX_INTEGER = 65


class SelectorError(UserError, ValueError):
    """A selector that Kubernetes itself would refuse."""


class Requirement(NamedTuple):
    """One condition on one label (or field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def accepts(self, label: str | None) -> bool:
        """Say whether a label of this value (None: absent) satisfies the requirement."""
        if self.operator == "In":
            return label is not None and label in self.values
        if self.operator == "NotIn":
            return label is None or label not in self.values
        if self.operator == "Exists":
            return label is not None
        if self.operator == "DoesNotExist":
            return label is None
        return label is not None and self._compares(label)

    def _compares(self, label: str) -> bool:
        actual, bound = parse_int64(label), parse_int64(self.values[0])
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator == "Gt" else actual < bound

    def check(self) -> None:
        """Raise `SelectorError` where the operator is unknown, its values do not fit, or no label can be like this."""
        count = len(self.values)
        if self.operator not in OPERATORS:
            raise SelectorError(f"{self.operator!r} is not a valid label selector operator")
        if self.operator in ("In", "NotIn") and not count:
            raise SelectorError(f"label {self.key!r}: for 'in', 'notin' operators, values set can't be empty")
        if self.operator in ("Exists", "DoesNotExist") and count:
            raise SelectorError(f"label {self.key!r}: values set must be empty for exists and does not exist")
        if self.operator in ("Gt", "Lt") and (count != 1 or parse_int64(self.values[0]) is None):
            raise SelectorError(f"label {self.key!r}: for 'Gt', 'Lt' operators, exactly one integer value is required")
        if not is_label_key(self.key):
            raise SelectorError(f"{self.key!r} is not a valid label key: write name or prefix.example.com/name")
        for value in self.values:
            if not is_label_value(value):
                raise SelectorError(f"label {self.key!r}: {value!r} is not a valid label value")


class Selector(NamedTuple):
    """A conjunction of requirements; with none it selects everything. `nothing` selects nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether `labels` satisfies every requirement."""
        if self.nothing:
            return False
        return all(requirement.accepts(labels.get(requirement.key)) for requirement in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def parse_int64(text: str) -> int | None:
    """Return the integer that Go's ParseInt(text, 10, 64) would, or None where it would fail."""
    return _int64(text) if len(text) <= _MAX_INTEGER else None


# What these caches keep is short: they are asked about whatever people write into objects, but not about what is too
# long to be right.


@lru_cache(maxsize=4096)
def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def is_label_value(text: str) -> bool:
    """Say whether a label can have this value: empty, or at most 63 letters, digits, `-`, `_` and `.`."""
    return len(text) <= _MAX_VALUE and _is_label_value(text)


@lru_cache(maxsize=4096)
def _is_label_value(text: str) -> bool:
    return not text or _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Say whether a label can have this key: a name like a label value, after an optional DNS prefix and a slash."""
    return len(text) <= _MAX_SUBDOMAIN + 1 + _MAX_VALUE and _is_label_key(text)


@lru_cache(maxsize=4096)
def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if not name or not is_label_value(name):
        return False
    return not slash or (len(prefix) <= _MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(prefix) is not None)


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a LabelSelector; None selects nothing, an empty one everything. Raises `SelectorError`."""
    if selector is None:
        return NOTHING
    labels = [Requirement(key, "In", (label,)) for key, label in sorted(selector.match_labels.items())]
    expressions = [Requirement(e.key, e.operator, tuple(sorted(e.values))) for e in selector.match_expressions]
    for requirement in (*labels, *expressions):
        requirement.check()
        if requirement.operator in ("Gt", "Lt"):
            raise SelectorError(f"{requirement.operator!r} is not a valid label selector operator")
    return Selector(tuple(sorted(labels + expressions)))


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """Compile a plain map, as Services and ReplicationControllers have it; an empty map selects nothing."""
    if not labels:
        return NOTHING
    return Selector(tuple(Requirement(key, "In", (label,)) for key, label in sorted(labels.items())))


_TERM = re.compile(
    r"""\s*(?:
      !\s*(?P<absent>[^\s,=!()]+)
    | (?P<key>[^\s,=!()<>]+)\s*(?:
        (?P<op>==|=|!=)\s*(?P<value>[^\s,=!()]*)
      | (?P<cmp>[<>])\s*(?P<bound>[^\s,=!()]+)
      | (?P<set>\b(?:in|notin)\b)\s*\(\s*(?P<values>[^()]*)\)
      )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> Selector:
    """Parse the text form that kubectl's `-l` and the API's labelSelector parameter take."""
    requirements, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise SelectorError(
                f"unable to parse requirement: {shortened(text[position:])!r} is not a label requirement"
            )
        requirements.append(_requirement_of(match))
        position = match.end()
    if text.endswith(","):
        raise SelectorError(
            f"unable to parse requirement: {shortened(text)!r}: another requirement must follow the last comma"
        )
    return Selector(tuple(requirements))


def _requirement_of(match: re.Match[str]) -> Requirement:
    requirement = _unchecked_requirement_of(match)
    requirement.check()
    return requirement


def _unchecked_requirement_of(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent"], "DoesNotExist")
    if match["op"]:
        return Requirement(match["key"], "NotIn" if match["op"] == "!=" else "In", (match["value"],))
    if match["cmp"]:
        return Requirement(match["key"], "Gt" if match["cmp"] == ">" else "Lt", (match["bound"],))
    if match["set"]:
        values = tuple(sorted(value.strip() for value in match["values"].split(",")))
        return Requirement(match["key"], "In" if match["set"] == "in" else "NotIn", values)
    return Requirement(match["key"], "Exists")


class FieldRequirement(NamedTuple):
    """One condition of a field selector; `operator` is `=` or `!=`."""

    path: str
    operator: str
    value: str


def parse_field_selector(text: str) -> tuple[FieldRequirement, ...]:
    """Parse `a.b=c,d!=e`; `==` means `=`, and a backslash escapes `,`, `=` and itself. Raises `SelectorError`."""
    return tuple(_field_requirement(part) for part in _FIELD_PARTS.findall(text.strip()) if part)


_FIELD_PARTS = re.compile(r"(?:\\.|[^\\,])+|\\$", re.DOTALL)
_FIELD_VALUE = re.compile(r"(?:\\[\\,=]|[^\\,=])*", re.DOTALL)


def _field_requirement(part: str) -> FieldRequirement:
    match = re.fullmatch(r"\s*([^=!]+?)(!=|==|=)(.*)", part, re.DOTALL)
    if match is None:
        raise SelectorError(f"invalid selector: {part!r}; expected field=value or field!=value")
    path, operator, value = match.groups()
    if not _FIELD_VALUE.fullmatch(value):
        raise SelectorError(f"invalid field selector: {part!r}; a backslash must precede `,`, `=` and itself")
    return FieldRequirement(path, "!=" if operator == "!=" else "=", re.sub(r"\\([\\,=])", r"\1", value))
