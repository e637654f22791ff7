"""The notebooks run from top to bottom, are kept without outputs, and what their cells end with shows itself."""

import ast
import json
from importlib.util import find_spec

import pytest

from tests.paths import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NEEDS = {"train_and_judge.ipynb": "gymnasium"}


def run(cells):
    """Execute the code cells in one namespace, as a kernel does; return what each ends with."""
    namespace, shown = {}, []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "a cell", "exec"), namespace)
        if last is not None:
            shown.append(eval(compile(last, "a cell", "eval"), namespace))
    return shown


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs_from_top_to_bottom(notebook):
    if (needed := NEEDS.get(notebook.name)) and not find_spec(needed):
        pytest.skip(f"{needed} is not installed")
    document = json.loads(notebook.read_text())
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    shown = run(code)
    assert shown
    for each in shown:
        if hasattr(each, "_repr_html_"):
            assert "<" in each._repr_html_()


def test_there_are_three():
    assert len(NOTEBOOKS) == 3
