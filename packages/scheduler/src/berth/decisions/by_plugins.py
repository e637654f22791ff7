"""Asks plugins what they tell people besides their decisions: for metrics, records, explanations, and the search for
what would help.

A plugin's bug costs its own answer and nothing else: the guard has logged it by then.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple, TypeVar, TypeVarTuple

import msgspec

from berth.cycle.decision import Decision
from berth.engine.profile import Profile
from berth.framework.blame import contained
from berth.framework.telling import Figure, Remedy
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")

PLUGINS_JOINED_BY = ","
"""Where several PreFilter plugins have ruled nodes out together, a status names all of them."""


class RejectionDetails(msgspec.Struct, frozen=True):
    """What a plugin says about its rejection, as things are now."""

    plugin: str
    sentences: tuple[str, ...]


class ScoreDetails(msgspec.Struct, frozen=True):
    """What a plugin says about its score of a node, as things are now."""

    node: str
    plugin: str
    sentences: tuple[str, ...]


class PluginFigure(NamedTuple):
    """A figure, and the plugin that it comes from."""

    profile: str
    plugin: str
    figure: Figure


def figures_of(profiles: Iterable[Profile]) -> list[PluginFigure]:
    """Return the figures of the plugins of some profiles."""
    return [
        PluginFigure(profile.name, plugin.name, figure)
        for profile in profiles
        for plugin in profile.plugins
        if plugin.figures is not None
        for figure in _answer(plugin.figures.figures)
    ]


def rejection_details(decision: Decision, profile: Profile | None) -> tuple[RejectionDetails, ...]:
    """Return what the plugins that rejected a pod say about it; nothing if the pod has a node.

    The plugin that says whose turn it is concerns every waiting pod, and so does PostFilter if it was asked.
    """
    if profile is None or decision.chosen is not None:
        return ()
    statuses = [status for status, _ in decision.rejected]
    if decision.pre_filter is not None and decision.pre_filter.status is not None:
        statuses.append(decision.pre_filter.status)
    rejecting = {name.strip() for status in statuses for name in status.plugin.split(PLUGINS_JOINED_BY)}
    if decision.post_filter is not None:
        rejecting |= {plugin.name for plugin in profile.plugins if plugin.post_filter is not None}
    rejecting |= {plugin.name for plugin in profile.plugins if plugin.tenants is not None}
    asked = [
        (plugin.name, plugin.explain_rejection)
        for plugin in profile.plugins
        if plugin.explain_rejection is not None and plugin.name in rejecting
    ]
    told = (RejectionDetails(name, tuple(_answer(each.explain_rejection, decision.pod))) for name, each in asked)
    return tuple(details for details in told if details.sentences)


def score_details(
    pod: PodInfo, profile: Profile, scoring: Container[str], nodes: Iterable[NodeView]
) -> tuple[ScoreDetails, ...]:
    """Return what the plugins that scored these nodes for a pod say; `scoring` has their names.

    Plugins that narrow the nodes down are asked too, since they also influence the choice.
    """
    asked = [
        (plugin.name, plugin.explain_score)
        for plugin in profile.plugins
        if plugin.explain_score is not None and (plugin.name in scoring or plugin.narrow is not None)
    ]
    told = (
        ScoreDetails(node.name, name, tuple(_answer(each.explain_score, pod, node)))
        for node in (nodes if asked else ())
        for name, each in asked
    )
    return tuple(details for details in told if details.sentences)


def remedies_for(pod: PodInfo, profile: Profile) -> list[Remedy]:
    """Return the changes to objects after which, plugins say, they would let a pod pass; none has been tried yet."""
    asked = [plugin.remedies for plugin in profile.plugins if plugin.remedies is not None]
    return [remedy for plugin in asked for remedy in _answer(plugin.remedies, pod)]


def _answer(ask: Callable[[*Arguments], Sequence[Answer]], *arguments: *Arguments) -> Sequence[Answer]:
    try:
        return ask(*arguments)
    except BaseException as raised:
        contained(raised)
        return ()
