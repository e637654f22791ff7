"""Examines a plugin once it is made: which forms it has, and which of them its promises let the engine use.

This is the only place that looks up a plugin's methods. All other code holds a `LoadedPlugin`, or sequences of the
Protocols of `berth.framework.interface`, and calls plain typed methods.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from berth.config.types import ExtensionPoint as Point
from berth.framework import interface
from berth.framework.promises import NEVER_KEPT, Promises, promises_of, wrong_values
from berth.framework.registry import fills, points_of

Methods = Mapping[str, Callable[..., Any]]
"""A form's method names, which are those of their points in snake case."""


class Called(NamedTuple):
    """When a form is called."""

    point: Point | None = None
    """At which point; None for what concerns the plugin as a whole."""
    promise: str = ""
    """The field of `Promises` that a class must set for the form to count, if any."""
    beside: tuple[str, ...] = ()
    """The methods of the forms that it complements, at least one of which must be present."""
    answers_as: str = ""
    """The method with which this form must agree."""


class LoadedPlugin(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One plugin of one profile. Each form that counts is the plugin itself, typed as that form; otherwise None."""

    name: str
    plugin: interface.Plugin
    promises: Promises
    events: interface.EventsPlugin | None = None
    pod_events: interface.PodEventHandlerPlugin | None = None
    pod_updates: Annotated[interface.PodUpdateHandlerPlugin | None, Called(beside=("pod_added",))] = None
    figures: interface.FiguresPlugin | None = None
    explain_rejection: interface.ExplainingPlugin | None = None
    explain_score: Annotated[
        interface.ScoreExplainingPlugin | None, Called(beside=("score", "score_columns", "narrow"))
    ] = None
    remedies: interface.RemedyPlugin | None = None
    lesser_requests: interface.LesserRequestsPlugin | None = None
    signature: interface.SignaturePlugin | None = None
    node_signature: Annotated[interface.NodeSignaturePlugin | None, Called(beside=("filter", "score"))] = None
    pre_enqueue: Annotated[interface.PreEnqueuePlugin | None, Called(Point.PRE_ENQUEUE)] = None
    queue_sort: Annotated[interface.QueueSortPlugin | None, Called(Point.QUEUE_SORT)] = None
    sort_key: Annotated[
        interface.SortKeyPlugin | None, Called(Point.QUEUE_SORT, beside=("less",), answers_as="less")
    ] = None
    tenants: Annotated[interface.TenantSortPlugin | None, Called(Point.QUEUE_SORT, beside=("less",))] = None
    pre_filter: Annotated[interface.PreFilterPlugin | None, Called(Point.PRE_FILTER)] = None
    pre_filter_version: Annotated[
        interface.VersionedPreFilterPlugin | None, Called(Point.PRE_FILTER, "pre_filter_has_version", ("pre_filter",))
    ] = None
    pre_filter_extensions: Annotated[
        interface.PreFilterExtensions | None, Called(Point.PRE_FILTER, beside=("pre_filter",))
    ] = None
    filter: Annotated[interface.FilterPlugin | None, Called(Point.FILTER)] = None
    filter_columns: Annotated[
        interface.ColumnFilterPlugin | None, Called(Point.FILTER, beside=("filter",), answers_as="filter")
    ] = None
    filter_row: Annotated[
        interface.RowFilterPlugin | None, Called(Point.FILTER, "filters_by_row", ("filter_columns",), "filter_columns")
    ] = None
    filter_domains: Annotated[
        interface.DomainFilterPlugin | None,
        Called(Point.FILTER, "filters_by_domain", ("filter_columns",), "filter_columns"),
    ] = None
    filter_under_load: Annotated[
        interface.LoadWhatIfPlugin | None,
        Called(Point.FILTER, "filters_under_load", ("filter_columns",), "filter_columns"),
    ] = None
    filter_by_pods: Annotated[
        interface.PodWhatIfPlugin | None, Called(Point.FILTER, "filters_by_affecting_pods", ("filter",))
    ] = None
    post_filter: Annotated[interface.PostFilterPlugin | None, Called(Point.POST_FILTER)] = None
    pod_group_post_filter: Annotated[
        interface.PodGroupPostFilterPlugin | None, Called(Point.POST_FILTER, beside=("post_filter",))
    ] = None
    narrow: Annotated[interface.NarrowingPlugin | None, Called(Point.PRE_SCORE)] = None
    pre_score: Annotated[interface.PreScorePlugin | None, Called(Point.PRE_SCORE)] = None
    pre_score_version: Annotated[
        interface.VersionedPreScorePlugin | None, Called(Point.PRE_SCORE, "pre_score_has_version", ("pre_score",))
    ] = None
    score: Annotated[interface.ScorePlugin | None, Called(Point.SCORE)] = None
    score_columns: Annotated[interface.ColumnScorePlugin | None, Called(Point.SCORE, answers_as="score")] = None
    score_row: Annotated[
        interface.RowScorePlugin | None, Called(Point.SCORE, "scores_by_row", ("score_columns",), "score_columns")
    ] = None
    score_domains: Annotated[
        interface.DomainScorePlugin | None, Called(Point.SCORE, "scores_by_domain", ("score_columns",), "score_columns")
    ] = None
    normalize_score: Annotated[
        interface.NormalizeScorePlugin | None, Called(Point.SCORE, beside=("score", "score_columns"))
    ] = None
    reserve: Annotated[interface.ReservePlugin | None, Called(Point.RESERVE)] = None
    permit: Annotated[interface.PermitPlugin | None, Called(Point.PERMIT)] = None
    pre_bind_pre_flight: Annotated[
        interface.PreBindPreFlightPlugin | None, Called(Point.PRE_BIND, beside=("pre_bind",))
    ] = None
    pre_bind: Annotated[interface.PreBindPlugin | None, Called(Point.PRE_BIND)] = None
    bind: Annotated[interface.BindPlugin | None, Called(Point.BIND)] = None
    post_bind: Annotated[interface.PostBindPlugin | None, Called(Point.POST_BIND)] = None
    placement_generate: Annotated[interface.PlacementGeneratePlugin | None, Called(Point.PLACEMENT_GENERATE)] = None
    placement_score: Annotated[interface.PlacementScorePlugin | None, Called(Point.PLACEMENT_SCORE)] = None
    normalize_placement_scores: Annotated[
        interface.NormalizePlacementScorePlugin | None, Called(Point.PLACEMENT_SCORE, beside=("placement_score",))
    ] = None


class PluginForm(NamedTuple):
    """A form that a plugin may have: the Protocol that says how it is called, and what it needs to be of use."""

    protocol: type
    methods: tuple[str, ...]
    """The methods that the Protocol asks for."""
    point: Point | None
    promise: str
    beside: tuple[str, ...]
    answers_as: str


def _forms() -> Iterator[tuple[str, PluginForm]]:
    """Derive the table from `LoadedPlugin`: an optional field is a form, with its Protocol and when it is called."""
    for field, hint in get_type_hints(LoadedPlugin, include_extras=True).items():
        form, called = get_args(hint) if get_origin(hint) is Annotated else (hint, Called())
        if type(None) in get_args(form):
            protocol = get_args(form)[0]
            methods = (name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_")
            yield field, PluginForm(protocol, tuple(methods), *called)


FORMS: Mapping[str, PluginForm] = MappingProxyType(dict(_forms()))
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


def asked_each_time(plugin_class: type) -> dict[str, tuple[str, ...]]:
    """Return the plain forms that are asked about every node for every pod, and what each lacks to be kept."""
    promises = promises_of(plugin_class)
    found: dict[str, tuple[str, ...]] = {}
    for form in ("filter", "score"):
        if fills(plugin_class, form) and not fills(plugin_class, f"{form}_columns"):
            promise = f"{form}_depends_on"
            lacks: tuple[str, ...] = () if fills(plugin_class, "signature") else ("signature",)
            if getattr(promises, promise) & NEVER_KEPT:
                lacks = (promise, *lacks)
            if lacks:
                found[form] = lacks
    return found


class ContractError(TypeError):
    """A plugin's class contradicts itself; `faults` lists how, each as the rest of a sentence about the class."""

    def __init__(self, plugin_class: type, faults: Sequence[str]) -> None:
        super().__init__(f"{plugin_class.__qualname__} {'; it '.join(faults)}")
        self.faults = tuple(faults)


def loaded(plugin: Any) -> LoadedPlugin:
    """Return the record of a plugin. Raises `ContractError`."""
    kind = type(plugin)
    faults = tuple(contradictions(kind))
    if faults:
        raise ContractError(kind, faults)
    forms = dict.fromkeys(forms_of(kind), plugin)
    return LoadedPlugin(name=plugin.name, plugin=plugin, promises=promises_of(kind), **forms)


def replaced(plugin: LoadedPlugin, fields: Iterable[str], stand_in: Callable[[Methods], Any]) -> LoadedPlugin:
    """Return the record with a stand-in, built from the form's methods, for each of these forms that the plugin has."""
    forms = {field: form for field in fields if (form := getattr(plugin, field)) is not None}
    methods = {field: {name: getattr(form, name) for name in FORMS[field].methods} for field, form in forms.items()}
    return msgspec.structs.replace(plugin, **{field: stand_in(found) for field, found in methods.items()})


def contradictions(plugin_class: type) -> Iterator[str]:
    """Yield the contradictions in a class, each as the rest of a sentence about it."""
    try:
        promises = promises_of(plugin_class)
    except TypeError as wrong:
        yield f"has something else under the name of its promises: {wrong}"
        return
    if wrong_ones := list(wrong_values(promises)):
        yield from wrong_ones
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
    """Yield a fault if a class overrides the form that is the specification, but not this one.

    The inherited form would keep answering like the base. (If there is no such form, nothing is outdated.)
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
