"""Node selectors: what `requiredDuringScheduling…`, `nodeSelector` and a volume's nodeAffinity say of nodes.

Terms are alternatives, the requirements of one term all hold. Source of the rules:
k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from collections.abc import Iterator, Mapping

from berth.api.meta import Struct
from berth.api.selectors import Requirement, SelectorError

NAME_FIELD = "metadata.name"
"""The only field that matchFields may name."""


class NodeSelectorRequirement(Struct, frozen=True):
    """One entry of matchExpressions or matchFields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """One alternative; a term with neither expressions nor fields matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    def label_requirements(self) -> Iterator[Requirement]:
        """Yield the checked requirements on labels; raises `SelectorError` on one that cannot be evaluated."""
        for expression in self.match_expressions:
            requirement = Requirement(expression.key, expression.operator, expression.values)
            requirement.check()
            yield requirement

    def field_requirements(self) -> Iterator[Requirement]:
        """Yield the checked requirements on the node's name; raises `SelectorError`."""
        for match in self.match_fields:
            if match.key != NAME_FIELD or match.operator not in ("In", "NotIn") or len(match.values) != 1:
                raise SelectorError(
                    f"matchFields: {match.key} {match.operator} {list(match.values)}: "
                    f"only {NAME_FIELD!r} with In or NotIn and one value is supported"
                )
            yield Requirement(match.key, match.operator, match.values)

    def is_empty(self) -> bool:
        """Say whether the term holds no requirement at all."""
        return not self.match_expressions and not self.match_fields

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Say whether a node of these labels and name satisfies the term; raises `SelectorError`."""
        if self.is_empty():
            return False
        # Every requirement is checked before any is evaluated: a term that cannot be read matches nothing at all.
        by_label, by_field = list(self.label_requirements()), list(self.field_requirements())
        return all(r.accepts(labels.get(r.key)) for r in by_label) and all(r.accepts(node_name) for r in by_field)


class NodeSelector(Struct, frozen=True):
    """Alternatives of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Say whether any term matches; a term that cannot be evaluated matches nothing."""
        return any(_matches_or_invalid(term, labels, node_name) for term in self.node_selector_terms)


def _matches_or_invalid(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    try:
        return term.matches(labels, node_name)
    except SelectorError:
        return False
