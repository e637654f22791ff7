"""What differs between two decisions about a pod, and because of which part; the parts are given.

That the real parts are divided well, packages/workbench/tests/comparison/test_decisions.py shows by whole schedulers.
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from berth.cycle.difference import AMONG_EQUALS, DECIDED_NODE, FIRST_BY_NAME, ComparedDecision, FoundParts, compared
from berth.decisions.side_by_side import AskedParts
from berth.framework.status import unschedulable


class Parts(AskedParts):
    """A decision about rows a, b, c made of given parts: rejected rows, and scores by row."""

    names, valid = ["a", "b", "c"], np.ones(3, dtype=np.bool_)

    def __init__(self, rejects=None, keeps=None, **scores):
        """`keeps` are the rows that a part keeps where any of them is feasible."""
        self._keeps = {part: np.isin([0, 1, 2], rows) for part, rows in (keeps or {}).items()}
        self.narrowing = frozenset(self._keeps)
        self.rejects = {part: np.isin([0, 1, 2], rows) for part, rows in (rejects or {}).items()}
        self._scores = scores

    def narrowed(self, mask, parts):
        for part in self._keeps.keys() & parts:
            mask = mask & self._keeps[part] if (mask & self._keeps[part]).any() else mask
        return mask

    def scores(self, mask):
        return {part: np.array(given)[mask] for part, given in self._scores.items()}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # One plugin's score.
        (Parts(P=[9, 0, 0], Q=[1, 0, 0]), Parts(P=[0, 9, 0], Q=[1, 0, 0]), (("P",), True)),
        # Either would do.
        (Parts(P=[5, 0, 0], Q=[5, 0, 0]), Parts(P=[0, 9, 0], Q=[0, 9, 0]), (("P", "Q"), True)),
        # Neither would do; one that gives the same everywhere, or what it gave before, is not named.
        (
            Parts(P=[10, 0, 0], Q=[10, 0, 0], R=[1, 1, 1], S=[1, 0, 0]),
            Parts(P=[0, 5, 0], Q=[0, 5, 0], R=[7, 7, 7], S=[1, 0, 0]),
            (("P", "Q"), False),
        ),
        # A verdict.
        (Parts({"F": [0]}, P=[9, 0, 0]), Parts({}, P=[9, 0, 0]), (("F",), True)),
        (Parts({}, P=[9, 0, 0]), Parts({"F": [0, 1, 2]}, P=[9, 0, 0]), (("F",), True)),
        # A preference that no score outweighs.
        (Parts(P=[9, 5, 0]), Parts({}, {"N": [1, 2]}, P=[9, 5, 0]), (("N",), True)),
        (Parts({}, {"N": [0]}, P=[0, 5, 0]), Parts({}, {"N": [1, 2]}, P=[0, 5, 0]), (("N",), True)),
        (Parts({}, {"N": [1]}, P=[9, 5, 0]), Parts({"F": [1]}, {"N": [1]}, P=[9, 5, 0]), (("F",), True)),
        # A plugin that only one of them has.
        (Parts(P=[9, 0, 0], Only=[0, 99, 0]), Parts(P=[9, 0, 0]), (("Only",), True)),
    ],
)
def test_the_cause_is_found_by_exchange(a, b, expected):
    found = compared("default/p", a, b, FIRST_BY_NAME)
    assert found.kind != "same" and found.a != found.b
    assert (found.plugins, found.alone) == expected


def test_a_plugin_that_only_makes_it_a_matter_of_lots_is_no_cause_by_itself():
    """With either part exchanged, a and b are equally good; it takes both for b to be chosen for certain."""
    a, b = Parts({"F": [2]}, P=[5, 0, 0], Q=[0, 0, 0]), Parts({"F": [2]}, P=[0, 0, 0], Q=[0, 5, 0])
    found = compared("default/p", a, b, AMONG_EQUALS)
    assert found == ComparedDecision("default/p", "a", "b", "elsewhere", ("P", "Q"), False)


@pytest.mark.parametrize(
    ("a", "b", "sameness", "kind"),
    [
        # B may draw A's node, or only finds another one first.
        (Parts(P=[0, 9, 0]), Parts(P=[9, 9, 0]), AMONG_EQUALS, "same"),
        (Parts(P=[0, 9, 0]), Parts(P=[9, 9, 0]), FIRST_BY_NAME, "elsewhere"),
        # A's node is the first of those that it may draw.
        (Parts(P=[9, 9, 0]), Parts(P=[0, 9, 0]), AMONG_EQUALS, "elsewhere"),
        (Parts({"F": [0, 1, 2]}), Parts({}), AMONG_EQUALS, "fitsNow"),
        (Parts({}), Parts({"F": [0, 1, 2]}), FIRST_BY_NAME, "fitsNoMore"),
        (Parts({"F": [0, 1, 2]}), Parts({"G": [0, 1, 2]}), AMONG_EQUALS, "same"),
    ],
)
def test_what_counts_as_the_same_decision(a, b, sameness, kind):
    assert compared("default/p", a, b, sameness).kind == kind


def test_decisions_that_are_known_are_not_made_again():
    """A node that was drawn among equals is what is to be explained, not the first of them."""
    a, b = Parts(P=[5, 5, 0]), Parts(P=[0, 5, 5])
    found = compared("default/p", a, b, DECIDED_NODE, (("a",), ("c",)))
    assert found == ComparedDecision("default/p", "a", "c", "elsewhere", ("P",), True)
    found = compared("default/p", a, b, DECIDED_NODE, (("b",), ("c",)))
    assert found == ComparedDecision("default/p", "b", "c", "elsewhere", ("P",), False)


def found(rejects=None, **scores):
    """A decision as an attempt has found it, about rows a and b; what a rejected node would score is not known."""
    said = {
        row: [unschedulable("no").by(part) for part, rows in (rejects or {}).items() if row in rows] for row in (0, 1)
    }
    shares = {row: {part: given[row] for part, given in scores.items()} for row in (0, 1) if not said[row]}
    attempt = SimpleNamespace(
        found=SimpleNamespace(
            nodes=SimpleNamespace(mask=[not said[0], not said[1]]),
            scored=SimpleNamespace(shares=shares.__getitem__),
            pre_filtered=None,
            verdicts=SimpleNamespace(findings=SimpleNamespace(statuses=said.__getitem__)),
            narrowed=(),
        )
    )
    return FoundParts(attempt, SimpleNamespace(names=["a", "b"]), (0, 1))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # Either rejection would do.
        (found(P=[9, 0]), found({"F": [0], "G": [0]}, P=[9, 0]), (("F", "G"), True)),
        (found({"F": [1], "G": [1]}, P=[0, 9]), found(P=[0, 9]), (("F", "G"), False)),
        # A's node is ruled out by one plugin, and B's was by another.
        (found({"F": [1]}, P=[9, 0]), found({"G": [0]}, P=[9, 0]), (("F", "G"), False)),
        # What was rejected has points in the other decision only, which then count for both nodes.
        (found({"F": [1]}, P=[100, 0]), found(P=[50, 100]), (("F",), True)),
        # Two together; the stronger one first, and what speaks against it is no cause.
        (found(P=[10, 0], Q=[10, 0], R=[0, 0]), found(P=[0, 5], Q=[0, 9], R=[1, 0]), (("Q", "P"), False)),
    ],
)
def test_two_nodes_are_compared_as_they_were_found(a, b, expected):
    told = compared("default/p", a, b, DECIDED_NODE, (("a",), ("b",)))
    assert (told.kind, told.plugins, told.alone) == ("elsewhere", *expected)


def test_what_was_found_and_what_is_asked_again_tell_the_same_cause():
    rng = random.Random(1)
    causes = set()
    for _ in range(500):
        of_a, of_b = ({part: [rng.randrange(20), rng.randrange(20), 0] for part in "PQRS"} for _ in range(2))
        asked_a, asked_b = Parts({"F": [2]}, **of_a), Parts({"F": [2]}, **of_b)
        nodes = asked_a.nodes(), asked_b.nodes()
        if nodes != (("a",), ("b",)):
            continue
        told = compared("default/p", asked_a, asked_b, DECIDED_NODE, nodes)
        assert compared("default/p", found(**of_a), found(**of_b), DECIDED_NODE, nodes) == told
        causes.add((len(told.plugins), told.alone))
    assert {(1, True), (2, True), (2, False)} <= causes
