"""Gathers the needs of a pod, and gives what no source accounts for a name: the plugin's own words."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from berth.framework.status import Code
from berth.planning.helping.needs import Need, NeedSource, Question


class Gathered(NamedTuple):
    """The needs that rule out any node, and what plugins said that nobody can do anything about but they."""

    needs: tuple[Need, ...]
    said: tuple[str, ...]


def gather(question: Question, sources: Sequence[NeedSource]) -> Gathered:
    """Ask the sources, then look for rejections that none of their needs explains."""
    needs = [need for source in sources for need in source.needs(question) if (need.failing & question.valid).any()]
    known = frozenset[str]().union(*(source.plugins for source in sources))
    unexplained = list(_unexplained(question, needs, known))
    return Gathered((*needs, *(need for need, _ in unexplained)), tuple(text for _, text in unexplained))


def _unexplained(question: Question, needs: Sequence[Need], known: frozenset[str]) -> Iterable[tuple[Need, str]]:
    """Yield a need that nothing but the plugin's own judgement can meet, with what it said."""
    whole = question.prover.ask(question.info, is_whole=False)
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
        need = Need(("said", status.plugin, status.reasons), status.plugin, left, may_be_freed=freed)
        count = int(left.sum())
        text = f"plugin {status.plugin} said of {count} node{'s' if count > 1 else ''}: {status.message}"
        needs = (*needs, need)
        yield need, text
