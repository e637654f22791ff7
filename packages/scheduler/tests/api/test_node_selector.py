"""Node selectors against k8s.io/component-helpers/scheduling/corev1/nodeaffinity."""

import pytest

from berth.api.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.selectors import SelectorError

LABELS = {"zone": "a", "cores": "8"}
NAME = "n1"


def labels(key, operator, *values):
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions, fields=()):
    return NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))


def name(operator, *values):
    return labels("metadata.name", operator, *values)


GOOD = term(labels("zone", "In", "a"))
BAD = term(labels("zone", "In", "b"))
UNREADABLE = term(labels("zone", "Near", "a"))


@pytest.mark.parametrize(
    ("selector_term", "expected"),
    [
        (GOOD, True),
        (BAD, False),
        (term(labels("zone", "In", "a"), labels("cores", "Gt", "4")), True),
        (term(labels("zone", "In", "a"), labels("cores", "Gt", "8")), False),
        (term(labels("cores", "Lt", "9")), True),
        (term(labels("gpu", "DoesNotExist")), True),
        (term(labels("gpu", "NotIn", "x")), True),
        (term(labels("gpu", "Exists")), False),
        (term(fields=[name("In", "n1")]), True),
        (term(fields=[name("In", "n2")]), False),
        (term(fields=[name("NotIn", "n2")]), True),
        (term(fields=[name("NotIn", "n1")]), False),
        (term(labels("zone", "In", "a"), fields=[name("In", "n2")]), False),
        (term(labels("zone", "In", "a"), fields=[name("In", "n1")]), True),
        (term(), False),
    ],
)
def test_terms(selector_term, expected):
    assert selector_term.matches(LABELS, NAME) is expected
    assert NodeSelector(node_selector_terms=(selector_term,)).matches(LABELS, NAME) is expected


@pytest.mark.parametrize(
    "selector_term",
    [
        UNREADABLE,
        term(labels("zone", "In")),
        term(labels("zone", "Exists", "a")),
        term(labels("cores", "Gt", "many")),
        term(labels("no key", "DoesNotExist")),
        term(labels("zone", "NotIn", "no value!")),
        term(fields=[name("In", "n1", "n2")]),
        term(fields=[name("In")]),
        term(fields=[name("Exists")]),
        term(fields=[labels("spec.x", "In", "n1")]),
        term(labels("zone", "In", "b"), labels("zone", "Near", "a")),
    ],
)
def test_terms_that_cannot_be_read_are_errors_and_match_nothing(selector_term):
    with pytest.raises(SelectorError):
        selector_term.matches(LABELS, NAME)
    assert not NodeSelector(node_selector_terms=(selector_term,)).matches(LABELS, NAME)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [((), False), ((BAD, GOOD), True), ((BAD, BAD), False), ((UNREADABLE, GOOD), True), ((UNREADABLE, BAD), False)],
)
def test_one_term_of_several_is_enough(terms, expected):
    assert NodeSelector(node_selector_terms=terms).matches(LABELS, NAME) is expected
