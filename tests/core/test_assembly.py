"""A core is put together in one place, and nobody outside changes its parts afterwards.

The first tests make cores; the others read the source, since what they hold no single run can show.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.config.load import default_config
from berth.core.assembly import build_core
from berth.core.builders import make_node, make_pod
from berth.core.options import CoreOptions, DecisionOptions, Instrumentation
from berth.core.timed_runner import TimedRunner, TimedWakeTable
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.instrument import Instrument
from berth.plugins.registry import in_tree_registry
from tests.paths import SCHEDULER, sources

MAKES_CORES = {"berth/core/core.py", "berth/core/assembly.py"}


def core(**options):
    return build_core(default_config(), in_tree_registry(), CoreOptions(rng=random.Random(0), **options))


class Noting(Instrument):
    def __init__(self):
        self.observed = []

    def attached(self, observed):
        self.observed.append(observed)


@pytest.mark.parametrize("instrument", [None, Noting()], ids=["nobody", "somebody"])
@pytest.mark.parametrize("stopwatch", [None, lambda: 0.0], ids=["untimed", "timed"])
def test_plugins_are_timed_where_there_is_somebody_to_tell_and_a_stopwatch(instrument, stopwatch):
    made = core(instrumentation=Instrumentation(instrument=instrument, stopwatch=stopwatch))
    (profile,), (table,) = made.profiles.values(), made.queue.tables.values()
    is_timed = instrument is not None and stopwatch is not None
    assert (isinstance(profile.runner, TimedRunner), isinstance(table, TimedWakeTable)) == (is_timed, is_timed)


def test_an_observer_is_told_once_what_it_may_read():
    noting = Noting()
    made = core(instrumentation=Instrumentation(instrument=noting))
    (observed,) = noting.observed
    assert (observed.generation, observed.table, observed.profiles, observed.trace) == (
        "v1.36",
        made.cache.table,
        made.profiles,
        made.trace,
    )


def test_the_age_at_which_the_unschedulable_are_tried_again_may_be_given():
    def attempts_after(seconds, **options):
        found = VirtualCluster(make_pod("a").request(cpu="1"), make_node("n1").capacity(cpu="0"), **options)
        return found.advance(seconds).core.trace["default/a"].attempts

    assert attempts_after(299.0) == 1
    assert attempts_after(65.0, unschedulable_age_s=30.0) == 2


def test_ties_and_single_nodes_are_treated_as_the_caller_wants():
    last = DecisionOptions(break_ties=lambda table: lambda rows: int(rows[-1]), score_single_node=True)
    made = core(decisions=last)
    assert made.search.break_tie([1, 2, 3]) == 3
    assert made.search.score_single_node


# --- what the source must not do ------------------------------------------------------------------------------------


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def assigned_to(tree: ast.AST) -> Iterator[ast.expr]:
    """Every target of an assignment, `del` and augmented ones included, with tuples taken apart."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        while targets:
            target = targets.pop()
            if isinstance(target, ast.Tuple | ast.List):
                targets += target.elts
            else:
                yield target


def is_a_part_of_a_core(target: ast.expr) -> bool:
    """Whether this is `core.x`, `self.core.x.y[z]` and the like: something below a name `core` or `_core`."""
    is_below = False
    while isinstance(target, ast.Attribute | ast.Subscript):
        if isinstance(target, ast.Attribute) and target.attr in ("core", "_core"):
            return is_below
        is_below, target = True, target.value
    return is_below and isinstance(target, ast.Name) and target.id in ("core", "_core")


def part_assignments(source: str) -> list[str]:
    return [ast.unparse(target) for target in assigned_to(ast.parse(source)) if is_a_part_of_a_core(target)]


@pytest.mark.parametrize(
    "source",
    [
        "core.x = 1",
        "self.core.x = 1",
        "self._core.queue.tables = {}",
        "core.profiles['a'] = 1",
        "a, core.memos.enabled = 1, 2",
        "core.n += 1",
        "del found.core.trace['a']",
    ],
)
def test_assignments_to_parts_are_recognised(source):
    assert part_assignments(source)


@pytest.mark.parametrize("source", ["core = 1", "self.core = build_core()", "x = core.y", "x[core.y] = 1"])
def test_other_assignments_are_not(source):
    assert not part_assignments(source)


def test_nobody_assigns_to_a_part_of_a_core_from_outside():
    found = {
        name: parts
        for name, path in sources().items()
        if name not in MAKES_CORES and (parts := part_assignments(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_the_core_is_not_wired_by_lambdas():
    lambdas = [node for node in ast.walk(tree_of(SCHEDULER / "core/core.py")) if isinstance(node, ast.Lambda)]
    assert len(lambdas) <= 2


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """The modules of ours that a file imports as it is imported, and those it imports for the type checker only."""
    found: set[str] = set()
    pending: list[ast.AST] = [tree_of(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue  # an import inside a function is made when that runs
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            found |= whole or {node.module} & modules
        pending += ast.iter_child_nodes(node)
    return found


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected parts of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            part = set(stack[stack.index(module) :])
            del stack[stack.index(module) :]
            if len(part) > 1:
                found.append(part)

    for module in sorted(imports):
        if module not in index:
            visit(module)
    return found


def test_circles_are_found():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert circles(imports) == [{"b", "c"}]


def import_graph() -> dict[str, set[str]]:
    paths = sorted(SCHEDULER.rglob("*.py"))
    names = {
        ".".join(path.relative_to(SCHEDULER.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }
    return {name: imports_of(path, set(names)) for name, path in names.items()}


def test_no_import_closes_a_circle_not_even_for_types():
    imports = import_graph()
    assert "berth.core.core" in imports["berth.core.assembly"], "the graph is empty"
    assert circles(imports) == []
