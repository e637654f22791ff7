"""Each plugin's file holds it to its points: the type checker compares what it says there with the Protocols.

That is no use where it says too little; so what it says is held against what the loader finds.
"""

import ast
import inspect
from pathlib import Path

import pytest

from berth.framework.loaded import forms_of
from berth.plugins.legacy.registry import with_legacy_plugins
from berth.plugins.registry import in_tree_registry


def registered():
    todays = in_tree_registry()
    registries = (todays, with_legacy_plugins(todays))
    return list(dict.fromkeys(registry.factory(name) for registry in registries for name in registry.names))


def held(kind):
    """The Protocols to which the last lines of a class's file hold it."""
    tree = ast.parse(Path(inspect.getsourcefile(kind)).read_text())
    checked = tree.body[-1]
    assert isinstance(checked, ast.If) and ast.unparse(checked.test) == "TYPE_CHECKING"
    points = {n.name: [ast.unparse(base) for base in n.bases] for n in checked.body if isinstance(n, ast.ClassDef)}
    for function in (n for n in checked.body if isinstance(n, ast.FunctionDef)):
        (parameter,) = function.args.args
        assert ast.unparse(function.body[-1]) == f"return {parameter.arg}"
        if kind.__name__ in ast.unparse(parameter.annotation).split(" | "):
            result = ast.unparse(function.returns)
            return set(points.get(result, [result])) - {"Protocol"}
    return set()


@pytest.mark.parametrize("kind", registered(), ids=lambda kind: kind.__name__)
def test_a_plugin_is_held_to_every_point_and_form_that_it_has(kind):
    assert held(kind) == {form.protocol.__name__ for form in forms_of(kind).values()}
