"""Promises are a class's own: a subclass that makes none is taken at its word, and asked about everything."""

from typing import ClassVar

import msgspec
import pytest

from berth.config.errors import ConfigError
from berth.engine.columns import column_of
from berth.engine.scores import ScoreRunner
from berth.engine.verdicts import FilterRunner
from berth.framework.loaded import loaded
from berth.framework.loader import misfits
from berth.framework.promises import NO_PROMISES, UNKNOWN, Dependency, Objects, Promises, promises_of
from berth.plugins.node_ports import NodePorts
from berth.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from berth.state.cache import Cache
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.views import Memory
from berth.testing import VirtualCluster
from packages.scheduler.tests.plugins.support import handle_of


class Stricter(NodeResourcesFit):
    """Changes what its base answers, and says nothing of what that depends on."""


class Same(NodeResourcesFit):
    promises: ClassVar[Promises] = NodeResourcesFit.promises


class Fewer(NodeResourcesFit):
    promises: ClassVar[Promises] = msgspec.structs.replace(NodeResourcesFit.promises, filters_by_row=False)


def made(kind):
    return loaded(kind(NodeResourcesFitArgs(), handle_of()))


def test_a_promise_is_not_inherited():
    assert promises_of(Stricter) is NO_PROMISES
    assert promises_of(Same) is NodeResourcesFit.promises


def test_what_promises_nothing_by_default():
    assert NO_PROMISES.filter_depends_on is UNKNOWN
    assert NO_PROMISES.score_depends_on is UNKNOWN
    others = {name: value for name, value in msgspec.structs.asdict(NO_PROMISES).items() if not name.endswith("_on")}
    assert not any(others.values())


@pytest.mark.parametrize(
    ("kind", "is_used"), [(NodeResourcesFit, True), (Same, True), (Fewer, False), (Stricter, False)]
)
def test_the_row_form_is_used_where_the_class_itself_vouches_for_it(kind, is_used):
    assert (FilterRunner(made(kind)).row_form is not None) is is_used


def test_columns_of_a_class_that_says_nothing_are_not_kept():
    pod = object()
    for runner in (FilterRunner(made(Stricter)), ScoreRunner(made(Stricter), 1)):
        assert column_of(Memory(Cache(), ObjectStore(), Nominator()), runner, pod) is None


def test_something_else_called_promises_is_refused():
    class Odd:
        promises = {"filter_depends_on": Dependency.NODE}

    with pytest.raises(TypeError, match=r"Odd\.promises is"):
        promises_of(Odd)


def test_a_plugin_of_two_forms_says_so():
    assert NodePorts.promises.filters_by_row
    assert NodePorts.promises.filters_by_affecting_pods


NODE = frozenset({Dependency.NODE})


@pytest.mark.parametrize(
    ("promises", "told"),
    [
        ({"filter_depends_on": [Dependency.NODE]}, "but a frozenset of Dependency and Objects is expected: write"),
        ({"score_depends_on": frozenset({"NODE"})}, "'NODE' is none of Dependency.NODE, Dependency.PODS_ON_NODE, "),
        ({"filter_depends_on": frozenset({Objects((3,))})}, "is none of Dependency.NODE"),
        ({"filters_by_row": "yes"}, "promises filters_by_row='yes', which is neither True nor False"),
        ({"pre_filter_is_pure": 1}, "promises pre_filter_is_pure=1, which is neither True nor False"),
        ({"ignores": frozenset({"names"})}, "a frozenset of REQUESTS and LABELS is expected"),
        ({"ignores": ["labels"]}, "a frozenset of REQUESTS and LABELS is expected"),
        ({"points": ["filter"]}, "a frozenset of extension points is expected"),
        ({"score_when_skipped": 101}, "an int from 0 to 100, or None, is expected"),
    ],
)
def test_a_promise_of_the_wrong_kind_is_refused_at_load(promises, told):
    def signature(self, pod):
        return ()

    made = type("P", (Plain,), {"promises": Promises(**promises), "signature": signature})
    (fault,) = misfits(made)
    assert told in fault
    with pytest.raises(ConfigError, match=" promises "):
        VirtualCluster(plugins=[made])


class Plain:
    name = "P"

    def __init__(self, args, handle): ...

    def filter(self, state, pod, node):
        return None


@pytest.mark.parametrize("field", ["filter_depends_on", "score_depends_on"])
def test_a_promise_without_a_signature_is_refused_at_load(field):
    made = type("P", (Plain,), {"promises": Promises(**{field: NODE})})
    (fault,) = misfits(made)
    assert fault.startswith(f"promises {field}, but has no method signature, without which nothing is kept")
    assert not misfits(type("P", (Plain,), {"promises": Promises(**{field: UNKNOWN})}))
