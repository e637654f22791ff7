"""What the failure function of v1.20 does about a node that is not found: it asks, and then the node leaves the cache.

The core calls it with the error of an attempt. Nothing is taken on one answer's word: the API server is asked for the
node itself first. Source: pkg/scheduler/factory.go, MakeDefaultErrorFunc, release-1.20.
"""

import re
from collections.abc import Generator

from berth.api.node import Node
from berth.framework.effects import Answer, ApiCall
from berth.state.table import NodeTable

_NOT_FOUND = re.compile(r'\bnodes? "([^"]+)" not found')


def missing_node(message: str) -> str | None:
    """Return the name of the node that an API server's error says is not found, or None where it says no such thing."""
    found = _NOT_FOUND.search(message)
    return None if found is None else found[1]


def find_gone(table: NodeTable, name: str) -> Generator[ApiCall, Answer, Node | None]:
    """Return the node of this name if the table has it and the API server, when asked, says it has not."""
    row = table.row_of.get(name)
    node = None if row is None else table.nodes[row]
    if node is None:
        return None
    answer = yield ApiCall("get", "Node", "", name)
    return node if missing_node(answer.error) == name else None
