"""What of a pod can rule nodes out: a source of needs for each group of plugins, and what none accounts for."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.framework.status import Code
from berth_workbench.planning.help.filters import FilterAnswer
from berth_workbench.planning.help.needs import Need, NeedSource, NodeEdit, PodQuestion
from berth_workbench.planning.help.sources.attached import DeviceNeeds, PortNeeds, VolumeNeeds
from berth_workbench.planning.help.sources.companions import CompanionNeeds
from berth_workbench.planning.help.sources.holds import HoldingNeeds
from berth_workbench.planning.help.sources.node_selection import SelectingNeeds, is_fact, labelled
from berth_workbench.planning.help.sources.resources import LesserRequestNeeds, ResourceNeeds
from berth_workbench.planning.help.sources.taints import TaintNeeds
from berth_workbench.planning.help.sources.topology_spread import SpreadingNeeds

Mask = NDArray[np.bool_]

SOURCES: tuple[NeedSource, ...] = (
    HoldingNeeds(),
    TaintNeeds(),
    SelectingNeeds(),
    PortNeeds(),
    ResourceNeeds(),
    SpreadingNeeds(),
    CompanionNeeds(),
    VolumeNeeds(),
    DeviceNeeds(),
    LesserRequestNeeds(),
)
"""In-tree sources. Plugins that none of them names are told in their own words, and only nodes and pods can change."""


class Gathered(NamedTuple):
    """The needs that rule out any node, and what plugins said that nobody can do anything about but they."""

    needs: tuple[Need, ...]
    said: tuple[str, ...]


def gather(question: PodQuestion, sources: Sequence[NeedSource]) -> Gathered:
    """Ask the sources, then look for rejections that none of their needs explains."""
    needs = [need for source in sources for need in source.needs(question) if (need.failing & question.valid).any()]
    known = frozenset[str]().union(*(source.plugins for source in sources))
    unexplained = list(_unexplained(question, needs, known))
    return Gathered((*needs, *(need for need, _ in unexplained)), tuple(text for _, text in unexplained))


def _unexplained(question: PodQuestion, needs: Sequence[Need], known: frozenset[str]) -> Iterable[tuple[Need, str]]:
    """Yield a need that nothing but the plugin's own judgement can meet, with what it said."""
    whole = question.filters.ask(question.info, is_whole=False)
    bare = question.ask_part({})
    for answer in (bare, whole):
        status = answer.pre_filter_status
        if status is not None and status.plugin and status.plugin not in known:
            freed = question.valid.copy() if status.code is Code.UNSCHEDULABLE else None
            need = Need(("said", status.plugin), status.plugin, question.valid.copy(), may_be_freed=freed)
            yield need, f"plugin {status.plugin} said of the pod: {status.message}"
            return
    explained = np.zeros_like(question.valid)
    for need in needs:
        explained |= need.failing
    for status, rows in (*whole.reasons(), *bare.reasons()):
        by_known = [need.failing for need in needs if need.plugin == status.plugin]
        left = rows & ~np.logical_or.reduce(by_known) if by_known else rows
        if status.plugin in known or not left.any():
            continue
        freed = left.copy() if status.code is Code.UNSCHEDULABLE else None
        edit = _label_of_the_others(question, rejected=_rejected_by(status.plugin, whole, bare))
        key = ("said", status.plugin, status.reasons)
        need = Need(key, status.plugin, left, may_be_freed=freed, node_edit=edit)
        count = int(left.sum())
        text = f"plugin {status.plugin} said of {count} node{'s' if count > 1 else ''}: {status.message}"
        needs = (*needs, need)
        yield need, text


def _rejected_by(plugin: str, *answers: FilterAnswer) -> Mask:
    """Return the rows that a plugin has rejected in any of some answers."""
    found = [answer.rejecting[plugin] for answer in answers if plugin in answer.rejecting]
    rejected: Mask = np.logical_or.reduce(found)
    return rejected


def _label_of_the_others(question: PodQuestion, rejected: Mask) -> Callable[[Node], NodeEdit | None] | None:
    """Guess what a plugin looks at that nobody knows: a label that all nodes have which it lets pass.

    Offered for nodes that lack exactly one such label, and like everything else only if the filters agree.
    """
    table = question.table
    common: set[tuple[str, str]] | None = None
    for row in np.flatnonzero(question.valid & ~rejected).tolist():
        labels = {item for item in table.node(row).metadata.labels.items() if not is_fact(item[0])}
        common = labels if common is None else common & labels
    if common is None:
        return None
    wanted = sorted(common)

    def edit(node: Node) -> NodeEdit | None:
        lacking = [(key, value) for key, value in wanted if node.metadata.labels.get(key) != value]
        return labelled(*lacking[0]) if len(lacking) == 1 else None

    return edit
