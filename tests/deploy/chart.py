"""Renders the Helm chart as Helm does, as far as the chart goes: the part of Go's text/template that it uses.

Whatever else a template says is an error here and not a guess. `tests/soak/test_shipping.py` holds this to Helm itself.
"""

import re
from functools import cache
from typing import NamedTuple

import yaml

from tests.deploy.strict_yaml import documents_of
from tests.paths import ROOT

CHART = ROOT / "deploy/helm/berth"

_ACTION = re.compile(r"\{\{(?P<left>- )?(?P<code>.*?)(?P<right> -)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()|]|:=|\$?[\w.]*[\w.$]|\S')


class Block(NamedTuple):
    """An action that holds others: `if`, `with`, `range`, with what follows on `else`."""

    kind: str
    condition: list
    body: list
    otherwise: list


class Scope(NamedTuple):
    """What `.` is, and the variables."""

    dot: object
    variables: dict


class UnsupportedError(Exception):
    """Something in a template that this renderer does not know."""


class RefusedError(Exception):
    """What a template says of values that cannot be meant: `fail`."""


def rendered(namespace="kube-system", release="berth", **values):
    """Return all documents of the chart with these values laid over the chart's own."""
    texts = Renderer(namespace, release, merged(defaults(), values)).files()
    return [document for text in texts.values() for document in documents_of(text)]


def rendered_to_look_at(**values):
    """As `rendered`, for tests of many values: they share the documents, since most values change few of the texts."""
    texts = Renderer("kube-system", "berth", merged(defaults(), values)).files()
    return [document for text in texts.values() for document in read_once(text)]


@cache
def read_once(text):
    return tuple(documents_of(text))


def notes(namespace="kube-system", release="berth", **values):
    return Renderer(namespace, release, merged(defaults(), values)).render("NOTES.txt")


def defaults():
    return read_yaml((CHART / "values.yaml").read_text())


def read_yaml(text):
    return yaml.load(text, yaml.CSafeLoader)


def merged(below, above):
    """Values as Helm lays them over one another: maps are merged, all else is replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: merged(below[key], value) if key in below else value for key, value in above.items()}


class Parser:
    """Text to tree; what a template defines for others is kept by name."""

    def __init__(self):
        self.templates = {}

    def parsed(self, path):
        pieces, at, text = [], 0, path.read_text()
        trim = False
        for action in _ACTION.finditer(text):
            before = text[at : action.start()]
            before = before.lstrip() if trim else before
            pieces.append(before.rstrip() if action["left"] else before)
            pieces.append(action["code"].strip())
            at, trim = action.end(), bool(action["right"])
        pieces.append(text[at:].lstrip() if trim else text[at:])
        rest = list(zip(pieces, [False, True] * len(pieces), strict=False))
        tree, rest, ended_by = self._block(rest)
        assert not rest and not ended_by, path
        return tree

    def _block(self, rest):
        """Parse up to the action that ends the block; return the tree, what is left, and that action."""
        tree = []
        while rest:
            (piece, is_action), rest = rest[0], rest[1:]
            if not is_action:
                tree.append(piece)
                continue
            word, _, code = piece.partition(" ")
            if piece == "end" or word == "else":
                return tree, rest, piece
            if piece.startswith("/*"):
                continue
            if word == "define":
                body, rest, _ = self._block(rest)
                self.templates[code.strip('"')] = body
            elif word in ("if", "with", "range"):
                block, rest = self._branches(word, code, rest)
                tree.append(block)
            else:
                tree.append(_TOKEN.findall(piece))
        return tree, rest, ""

    def _branches(self, word, code, rest):
        body, rest, ended_by = self._block(rest)
        otherwise = []
        if ended_by.startswith("else "):
            word_again, _, code_again = ended_by.removeprefix("else ").partition(" ")
            branch, rest = self._branches(word_again, code_again, rest)
            otherwise = [branch]
        elif ended_by == "else":
            otherwise, rest, _ = self._block(rest)
        return Block(word, _TOKEN.findall(code), body, otherwise), rest


@cache
def parsed_chart():
    """What is the same for every release: Chart.yaml, the tree of each template, and what they define by name."""
    parser = Parser()
    trees = {path.name: parser.parsed(path) for path in sorted((CHART / "templates").iterdir())}
    return read_yaml((CHART / "Chart.yaml").read_text()), trees, parser.templates


class Renderer:
    """One release of the chart."""

    def __init__(self, namespace, release, values):
        chart, trees, self.templates = parsed_chart()
        self.root = {
            "Values": values,
            "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
            "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
        }
        self.trees = dict(trees)

    def files(self):
        return {name: self.render(name) for name in self.trees if name.endswith(".yaml")}

    def render(self, name):
        return self._run(self.trees[name], Scope(self.root, {"$": self.root}))

    def _run(self, tree, scope):
        return "".join(self._node(node, scope) for node in tree)

    def _node(self, node, scope):
        if isinstance(node, str):
            return node
        if isinstance(node, Block):
            return self._run_block(node, scope)
        if node[1:2] == [":="]:
            scope.variables[node[0]] = self._value(node[2:], scope)
            return ""
        return as_text(self._value(node, scope))

    def _run_block(self, block, scope):
        value = self._value(block.condition, scope)
        if not value:
            return self._run(block.otherwise, scope)
        if block.kind == "if":
            return self._run(block.body, scope)
        dots = value if block.kind == "range" else [value]
        return "".join(self._run(block.body, scope._replace(dot=dot)) for dot in dots)

    def _value(self, tokens, scope):
        """A pipeline: each command's result is the last argument of the next."""
        piped, command, depth = [], [], 0
        for token in [*tokens, "|"]:
            depth += {"(": 1, ")": -1}.get(token, 0)
            if token == "|" and depth == 0:
                piped = [self._command(command, piped, scope)]
                command = []
            else:
                command.append(token)
        return piped[0]

    def _command(self, tokens, piped, scope):
        if tokens[0] == ".Files.Get":
            return (CHART / self._operand(tokens[1], scope)).read_text()
        if re.fullmatch(r"[a-zA-Z]+", tokens[0]) and tokens[0] not in ("true", "false"):
            arguments = [self._operand(token, scope) for token in tokens[1:]]
            return self._function(tokens[0], [*arguments, *piped])
        if len(tokens) != 1 or piped:
            raise UnsupportedError(" ".join(tokens))
        return self._operand(tokens[0], scope)

    def _operand(self, token, scope):
        if token.startswith('"'):
            return read_yaml(token)
        if re.fullmatch(r"\d+", token):
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        if token == ".":
            return scope.dot
        if not re.fullmatch(r"\$?\w*(\.\w+)*", token):
            raise UnsupportedError(token)
        start, *path = token.split(".")
        value = scope.variables[start] if start else scope.dot
        for name in path:
            value = value.get(name)  # what a map does not have is nil
        return value

    def _function(self, name, arguments):
        if name == "include":
            return self._run(self.templates[arguments[0]], Scope(arguments[1], {"$": arguments[1]}))
        try:
            return FUNCTIONS[name](*arguments)
        except KeyError:
            raise UnsupportedError(name) from None


def as_text(value):
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def quoted(value):
    return '"' + as_text(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def formatted(template, *values):
    assert re.sub(r"%[sq]", "", template).count("%") == 0, template
    found = iter(values)
    return re.sub(r"%[sq]", lambda verb: (quoted if verb[0] == "%q" else as_text)(next(found)), template)


def refuse(message):
    raise RefusedError(message)


FUNCTIONS = {
    "contains": lambda part, text: part in text,
    "default": lambda fallback, value: value or fallback,
    "eq": lambda one, other: one == other,
    "fail": refuse,
    "first": lambda values: values[0],
    "fromYaml": read_yaml,
    "int": int,
    "nindent": lambda spaces, text: "\n" + "\n".join(" " * spaces + line for line in text.split("\n")),
    "not": lambda value: not value,
    "omit": lambda values, *keys: {key: value for key, value in values.items() if key not in keys},
    "printf": formatted,
    "quote": quoted,
    "replace": lambda old, new, text: text.replace(old, new),
    "splitList": lambda separator, text: text.split(separator),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "toYaml": lambda value: yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=True, width=10_000).rstrip("\n"),
    "until": lambda end: list(range(end)),
}
