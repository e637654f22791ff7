"""Every public class has a name of its own: who reads it, or searches for it, finds one thing."""

import ast
from collections import defaultdict
from functools import cache

from tests.paths import sources


@cache
def _public_classes() -> dict[str, list[str]]:
    """Where the public classes at the top level of modules are defined, by name."""
    found = defaultdict(list)
    for name, path in sources().items():
        for node in ast.parse(path.read_text("utf-8"), str(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return dict(found)


def test_the_classes_are_found() -> None:
    classes = _public_classes()
    assert classes["Store"] == ["berth_cluster/storage/store.py"]
    assert len(classes) > 300


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: files for name, files in _public_classes().items() if len(files) > 1}
    assert not shared, f"give all but one of each another name: {shared}"
