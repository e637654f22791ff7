"""A plugin that was made, taken apart once: which forms it has, and which of them its promises let the engine use.

This is the only place that looks a plugin's methods up. Everybody else holds a `LoadedPlugin`, or sequences of the
Protocols of `berth.framework.interface`, and calls plain typed methods.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.config.types import ExtensionPoint as Point
from berth.framework import interface
from berth.framework.promises import Promises, promises_of
from berth.framework.registry import fills, points_of

Methods = Mapping[str, Callable[..., Any]]
"""A form's methods by their names, which are those of their points in snake case."""


class LoadedPlugin(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One plugin of one profile. Each form that counts is the plugin itself, typed as what it is there; else None."""

    name: str
    plugin: interface.Plugin
    promises: Promises
    events: interface.EventsPlugin | None = None
    pod_events: interface.PodEventHandlerPlugin | None = None
    pod_updates: interface.PodUpdateHandlerPlugin | None = None
    figures: interface.FiguresPlugin | None = None
    explain_rejection: interface.ExplainingPlugin | None = None
    explain_score: interface.ScoreExplainingPlugin | None = None
    remedies: interface.RemedyPlugin | None = None
    lesser_requests: interface.LesserRequestsPlugin | None = None
    signature: interface.SignaturePlugin | None = None
    pre_enqueue: interface.PreEnqueuePlugin | None = None
    queue_sort: interface.QueueSortPlugin | None = None
    sort_key: interface.SortKeyPlugin | None = None
    tenants: interface.TenantSortPlugin | None = None
    pre_filter: interface.PreFilterPlugin | None = None
    pre_filter_version: interface.VersionedPreFilterPlugin | None = None
    pre_filter_extensions: interface.PreFilterExtensions | None = None
    filter: interface.FilterPlugin | None = None
    filter_columns: interface.ColumnFilterPlugin | None = None
    filter_row: interface.RowFilterPlugin | None = None
    filter_domains: interface.DomainFilterPlugin | None = None
    filter_under_load: interface.LoadWhatIfPlugin | None = None
    filter_by_pods: interface.PodWhatIfPlugin | None = None
    post_filter: interface.PostFilterPlugin | None = None
    pod_group_post_filter: interface.PodGroupPostFilterPlugin | None = None
    narrow: interface.NarrowingPlugin | None = None
    pre_score: interface.PreScorePlugin | None = None
    pre_score_version: interface.VersionedPreScorePlugin | None = None
    score: interface.ScorePlugin | None = None
    score_columns: interface.ColumnScorePlugin | None = None
    score_row: interface.RowScorePlugin | None = None
    score_domains: interface.DomainScorePlugin | None = None
    normalize_score: interface.NormalizeScorePlugin | None = None
    reserve: interface.ReservePlugin | None = None
    permit: interface.PermitPlugin | None = None
    pre_bind_pre_flight: interface.PreBindPreFlightPlugin | None = None
    pre_bind: interface.PreBindPlugin | None = None
    bind: interface.BindPlugin | None = None
    post_bind: interface.PostBindPlugin | None = None
    placement_generate: interface.PlacementGeneratePlugin | None = None
    placement_score: interface.PlacementScorePlugin | None = None
    normalize_placement_scores: interface.NormalizePlacementScorePlugin | None = None


class PluginForm(NamedTuple):
    """A form that a plugin may have: the Protocol that says how it is called, and what it is no use without."""

    protocol: type
    methods: tuple[str, ...]
    """What the Protocol asks for."""
    point: Point | None
    """Where it is called; None for what holds of the plugin as a whole."""
    promise: str
    """The field of `Promises` that a class must set for the form to count, if any."""
    beside: tuple[str, ...]
    """The methods of other forms that it goes with; at least one of them must be there."""
    answers_as: str
    """The method with which this form must agree."""


def _form(
    protocol: type, point: Point | None = None, promise: str = "", beside: tuple[str, ...] = (), answers_as: str = ""
) -> PluginForm:
    methods = tuple(name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_")
    return PluginForm(protocol, methods, point, promise, beside, answers_as)


FORMS: Mapping[str, PluginForm] = MappingProxyType(
    {
        "events": _form(interface.EventsPlugin),
        "pod_events": _form(interface.PodEventHandlerPlugin),
        "pod_updates": _form(interface.PodUpdateHandlerPlugin, beside=("pod_added",)),
        "figures": _form(interface.FiguresPlugin),
        "explain_rejection": _form(interface.ExplainingPlugin),
        "explain_score": _form(interface.ScoreExplainingPlugin, beside=("score", "score_columns", "narrow")),
        "remedies": _form(interface.RemedyPlugin),
        "lesser_requests": _form(interface.LesserRequestsPlugin),
        "signature": _form(interface.SignaturePlugin),
        "pre_enqueue": _form(interface.PreEnqueuePlugin, Point.PRE_ENQUEUE),
        "queue_sort": _form(interface.QueueSortPlugin, Point.QUEUE_SORT),
        "sort_key": _form(interface.SortKeyPlugin, Point.QUEUE_SORT, beside=("less",), answers_as="less"),
        "tenants": _form(interface.TenantSortPlugin, Point.QUEUE_SORT, beside=("less",)),
        "pre_filter": _form(interface.PreFilterPlugin, Point.PRE_FILTER),
        "pre_filter_version": _form(
            interface.VersionedPreFilterPlugin, Point.PRE_FILTER, "pre_filter_has_version", ("pre_filter",)
        ),
        "pre_filter_extensions": _form(interface.PreFilterExtensions, Point.PRE_FILTER, beside=("pre_filter",)),
        "filter": _form(interface.FilterPlugin, Point.FILTER),
        "filter_columns": _form(interface.ColumnFilterPlugin, Point.FILTER, beside=("filter",), answers_as="filter"),
        "filter_row": _form(
            interface.RowFilterPlugin, Point.FILTER, "filters_by_row", ("filter_columns",), "filter_columns"
        ),
        "filter_domains": _form(
            interface.DomainFilterPlugin, Point.FILTER, "filters_by_domain", ("filter_columns",), "filter_columns"
        ),
        "filter_under_load": _form(
            interface.LoadWhatIfPlugin, Point.FILTER, "filters_under_load", ("filter_columns",), "filter_columns"
        ),
        "filter_by_pods": _form(
            interface.PodWhatIfPlugin, Point.FILTER, "filters_by_affecting_pods", ("filter_columns",)
        ),
        "post_filter": _form(interface.PostFilterPlugin, Point.POST_FILTER),
        "pod_group_post_filter": _form(interface.PodGroupPostFilterPlugin, Point.POST_FILTER, beside=("post_filter",)),
        "narrow": _form(interface.NarrowingPlugin, Point.PRE_SCORE),
        "pre_score": _form(interface.PreScorePlugin, Point.PRE_SCORE),
        "pre_score_version": _form(
            interface.VersionedPreScorePlugin, Point.PRE_SCORE, "pre_score_has_version", ("pre_score",)
        ),
        "score": _form(interface.ScorePlugin, Point.SCORE),
        "score_columns": _form(interface.ColumnScorePlugin, Point.SCORE, answers_as="score"),
        "score_row": _form(interface.RowScorePlugin, Point.SCORE, "scores_by_row", ("score_columns",), "score_columns"),
        "score_domains": _form(
            interface.DomainScorePlugin, Point.SCORE, "scores_by_domain", ("score_columns",), "score_columns"
        ),
        "normalize_score": _form(interface.NormalizeScorePlugin, Point.SCORE, beside=("score", "score_columns")),
        "reserve": _form(interface.ReservePlugin, Point.RESERVE),
        "permit": _form(interface.PermitPlugin, Point.PERMIT),
        "pre_bind_pre_flight": _form(interface.PreBindPreFlightPlugin, Point.PRE_BIND, beside=("pre_bind",)),
        "pre_bind": _form(interface.PreBindPlugin, Point.PRE_BIND),
        "bind": _form(interface.BindPlugin, Point.BIND),
        "post_bind": _form(interface.PostBindPlugin, Point.POST_BIND),
        "placement_generate": _form(interface.PlacementGeneratePlugin, Point.PLACEMENT_GENERATE),
        "placement_score": _form(interface.PlacementScorePlugin, Point.PLACEMENT_SCORE),
        "normalize_placement_scores": _form(
            interface.NormalizePlacementScorePlugin, Point.PLACEMENT_SCORE, beside=("placement_score",)
        ),
    }
)
"""The forms by their field in `LoadedPlugin`."""


def forms_of(plugin_class: type) -> dict[str, PluginForm]:
    """Return the forms of a class that count: those whose methods it has, whose promise it makes, and whose point it
    takes part in."""
    points, promises = points_of(plugin_class), promises_of(plugin_class)
    return {
        field: form
        for field, form in FORMS.items()
        if (form.point is None or form.point in points)
        and (not form.promise or getattr(promises, form.promise))
        and all(fills(plugin_class, method) for method in form.methods)
    }


class ContractError(TypeError):
    """A plugin's class contradicts itself; `faults` are what is wrong, each as the rest of a sentence about it."""

    def __init__(self, plugin_class: type, faults: Sequence[str]) -> None:
        super().__init__(f"{plugin_class.__qualname__} {'; it '.join(faults)}")
        self.faults = tuple(faults)


def loaded(plugin: Any) -> LoadedPlugin:
    """Return the record of a plugin that was made. Raises `ContractError`."""
    kind = type(plugin)
    faults = tuple(contradictions(kind))
    if faults:
        raise ContractError(kind, faults)
    forms = dict.fromkeys(forms_of(kind), plugin)
    return LoadedPlugin(name=plugin.name, plugin=plugin, promises=promises_of(kind), **forms)


def replaced(plugin: LoadedPlugin, fields: Iterable[str], stand_in: Callable[[Methods], Any]) -> LoadedPlugin:
    """Return the record with a stand-in for each of these forms that the plugin has, made of the form's methods."""
    forms = {field: form for field in fields if (form := getattr(plugin, field)) is not None}
    methods = {field: {name: getattr(form, name) for name in FORMS[field].methods} for field, form in forms.items()}
    return msgspec.structs.replace(plugin, **{field: stand_in(found) for field, found in methods.items()})


def contradictions(plugin_class: type) -> Iterator[str]:
    """Yield where a class says one thing and does another, each as the rest of a sentence about it."""
    try:
        promises = promises_of(plugin_class)
    except TypeError as wrong:
        yield f"has something else under the name of its promises: {wrong}"
        return
    optional = vars(plugin_class).get("optional", False)
    if not isinstance(optional, bool):
        yield f"has optional = {optional!r}, which is neither True nor False"
    elif optional and fills(plugin_class, "less"):
        yield "is optional, but orders the queue, which cannot do without"
    for form in FORMS.values():
        has = [method for method in form.methods if fills(plugin_class, method)]
        missing = [method for method in form.methods if method not in has]
        if form.promise and getattr(promises, form.promise) and missing:
            yield f"promises {form.promise}, but has no method {missing[0]}"
        elif has and missing:
            yield f"has the method {has[0]} but not {missing[0]}, which goes with it"
        elif missing and form.protocol in plugin_class.__mro__:
            yield f"inherits {form.protocol.__name__}, but has no method {missing[0]}"
        elif has and form.beside and not any(fills(plugin_class, method) for method in form.beside):
            yield f"has the method {has[0]} but not {form.beside[0]}, which goes with it"
        elif has and form.promise and not getattr(promises, form.promise) and any(m in vars(plugin_class) for m in has):
            yield f"has the method {has[0]}, which is not called as its own `promises` does not set {form.promise}=True"
        elif has and form.answers_as and (not form.promise or getattr(promises, form.promise)):
            yield from _outdated(plugin_class, form)


def _outdated(plugin_class: type, form: PluginForm) -> Iterator[str]:
    """Yield a fault if a class answers anew in the form that counts as the specification, but not in this one.

    What it inherits here would go on answering as its base does. (Where it has no such form, nothing is outdated.)
    """
    if not fills(plugin_class, form.answers_as):
        return
    for method in form.methods:
        if _depth(plugin_class, method) > _depth(plugin_class, form.answers_as):
            yield (
                f"has its own {form.answers_as}, but inherits {method}, which answers as its base class does; write "
                f"{method} as well"
            )


def _depth(plugin_class: type, method: str) -> int:
    """Return how far up the bases a method is defined; 0 is the class itself."""
    return next((depth for depth, kind in enumerate(plugin_class.__mro__) if method in vars(kind)), -1)
