"""Parses the text of a configuration file into plain JSON values.

Called by `load` for files. Reads YAML or JSON the way Kubernetes does: only what JSON can say (no dates, no
numbers in base 60), keys are strings, and a key that stands twice in one mapping is an error that gives both
lines.
"""

import json
import math
from collections.abc import Hashable
from typing import Any

import yaml

from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs, yaml_problem
from berth.config.errors import ConfigError

_MERGE_TAG = "tag:yaml.org,2002:merge"
_TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"
_INT_TAG = "tag:yaml.org,2002:int"
_FLOAT_TAG = "tag:yaml.org,2002:float"
_MAX_DEPTH = 100
_MAX_NODES = 100_000
_JSON_TYPES = (str, int, float, bool, type(None))


def parse_document(text: str | bytes, source: str) -> Any:
    """Parse one document; raises ConfigError that names the line where the text cannot be read."""
    try:
        refuse_bombs(text, _MAX_DEPTH, _MAX_NODES)
        loader = PARSER(text)
        try:
            # Only the first document of a stream is read, as upstream does.
            node = loader.get_node() if loader.check_node() else None
            return None if node is None else _Converter(loader, source).value(node, "")
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_yaml_fault(error)], source) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"not readable as YAML or JSON: {yaml_problem(error)}"], source) from None
    except UnreasonableYAML as error:
        raise ConfigError([f"no configuration: {error}"], source) from None


def _yaml_fault(error: yaml.MarkedYAMLError) -> str:
    """One line for a syntax error: the place and what the parser met."""
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{where}not readable as YAML or JSON: {yaml_problem(error)}"


class _Converter:
    """Turns a YAML node graph into JSON values and refuses what JSON cannot hold."""

    __slots__ = ("_loader", "_source")

    def __init__(self, loader: Any, source: str) -> None:
        self._loader = loader
        self._source = source

    def value(self, node: yaml.Node, path: str) -> Any:
        """The value of a node; `path` is where it stands."""
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        assert isinstance(node, yaml.SequenceNode)
        return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        """A mapping with string keys, each only once; keys that `<<` merges in may be overridden."""
        self._refuse_repeated_keys(node, path)
        self._loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            found[key] = self.value(value_node, f"{path}.{key}" if path else key)
        return found

    def _refuse_repeated_keys(self, node: yaml.MappingNode, path: str) -> None:
        """Raise at the second of two equal keys."""
        first_lines: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == _MERGE_TAG:
                continue
            key = self._key(key_node, path)
            line = key_node.start_mark.line + 1
            if key in first_lines:
                where = f"{path}.{key}" if path else key
                raise self._fault(key_node, where, f"the key stands in line {first_lines[key]} already: keep one")
            first_lines[key] = line

    def _key(self, node: yaml.Node, path: str) -> str:
        """A key as text: numbers and booleans are written as JSON would, nothing else is a key."""
        key = self.value(node, path)
        if isinstance(key, str):
            return key
        if isinstance(key, bool | int | float):
            return json.dumps(key)
        raise self._fault(node, path, "a key must be a string")

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        """A scalar; dates and base-60 numbers, which YAML 1.1 sees and Kubernetes does not, are plain strings."""
        sexagesimal = node.tag in {_INT_TAG, _FLOAT_TAG} and ":" in node.value
        if node.tag == _TIMESTAMP_TAG or sexagesimal:
            return node.value
        try:
            value = self._loader.construct_object(node)
        except (yaml.YAMLError, AttributeError, KeyError, ValueError) as error:  # which one differs by tag
            raise self._fault(node, path, f"not a value: {yaml_problem(error)}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self._fault(node, path, f"{node.value} is not a number that JSON has")
        if not isinstance(value, _JSON_TYPES):
            kind = node.tag if node.tag.startswith("tag:yaml.org,") else "this"
            raise self._fault(node, path, f"{kind} is not a kind of value that JSON has")
        return value

    def _fault(self, node: yaml.Node, path: str, what: str) -> ConfigError:
        """An error at a node."""
        return ConfigError([f"{path or 'document'} (line {node.start_mark.line + 1}): {what}"], self._source)
