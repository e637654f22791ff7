"""Guards out-of-tree plugins: every answer is checked, and a bug is reported once with its traceback.

`guarded` gives a newly made plugin a class of its own, which overrides the methods of the contract: each calls the
plugin's method with faces of what the engine keeps using (`berth.framework.faces`), and passes the answer on if the
contract allows it. Any other answer becomes a `WrongAnswer`, which the engine treats like any exception of a plugin,
and which says which plugin answered what.

Berth's own plugins are not guarded, so that the main path pays nothing: the type checker holds them to the contract.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np

from berth.framework import faces
from berth.framework.answers import shown
from berth.framework.blame import contained, origin_of, place_in, place_of, raise_again
from berth.framework.effects import Answerable, ApiCall, ApiVerb, WaitUntil
from berth.framework.events import ClusterEventWithHint, HintFunction, QueueingHint
from berth.framework.health import Lane, PluginHealth
from berth.framework.interface import (
    DomainCodes,
    FilterColumn,
    Narrowed,
    OverDomains,
    Placement,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
)
from berth.framework.loader import STEPWISE, contract
from berth.framework.promises import promises_of
from berth.framework.registry import fills
from berth.framework.status import SKIP, Code, Status, unschedulable
from berth.framework.telling import Figure, Remedy
from berth.framework.work_budget import OutOfBudgetError

Report = Callable[[str, str, Exception], None]
"""`report(plugin, method, bug)`: a plugin raised something, at a place where it has not raised before."""

Fault = str | None
"""What was expected instead of an answer; None if the answer is fine."""

Check = Callable[[Any, tuple[Any, ...]], Fault]
"""`check(answer, arguments)`; the arguments are those of the call, without `self`."""


class WrongAnswer(TypeError):  # noqa: N818 - messages show people this name
    """A plugin gave an answer that the contract does not allow: which plugin, which answer, and what was expected."""


def guarded(plugin: Any, origin: str, report: Report, health: PluginHealth | None = None) -> Any:
    """Return the plugin itself, now of a class that checks each of its answers; `origin` says where it comes from.

    `health`, if given, is told of each call and each failure, and says when the plugin is left out.

    The new class makes the same promises as the plugin's own and adds no state, which is why an object can switch to
    it. If a class does not allow that (a tuple, a `msgspec.Struct`), the plugin runs unchecked.
    """
    own = type(plugin)
    seen: set[tuple[str, str]] = set()
    told: set[Hashable] = set()

    def tell(method: str, bug: Exception) -> None:
        if health is not None and method not in _NO_WORK:
            health.raised(_lane(method), bug)
        origin = method, origin_of(bug)
        if origin in told:  # cheaper than working out the place, for a plugin that raises on every node
            return
        told.add(origin)
        place = method, place_of(bug)
        if place not in seen:
            seen.add(place)
            report(plugin.name, method, bug)

    methods = {name: _guard(own, name, check, origin, tell) for name, check in _CHECKS.items() if fills(own, name)}
    if health is not None:
        methods = {
            name: method if name in _NO_WORK else _watched(health, name, method) for name, method in methods.items()
        }
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__, "__slots__": ()}
    with contextlib.suppress(TypeError):
        plugin.__class__ = type(own.__name__, (own,), {**names, "promises": promises_of(own), **methods})
    return plugin


def _guard(
    own: type, method: str, check: Check, origin: str, tell: Callable[[str, Exception], None]
) -> Callable[..., Any]:
    where = f"{own.__name__}.{method} of {origin}"
    is_bound = isinstance(vars(_home(own, method))[method], staticmethod | classmethod)

    def passed(answer: Any, arguments: tuple[Any, ...]) -> Any:
        expected = check(answer, arguments)
        if expected is not None:
            wrong = WrongAnswer(f"{where} returned {shown(answer)}, but {expected}")
            tell(method, wrong)
            raise wrong
        return _look_into(answer, where) if method in _WITH_FUNCTIONS else answer

    def stepwise(steps: Generator[Any, Any, Any], arguments: tuple[Any, ...]) -> Generator[Any, Any, Any]:
        # Not `yield from`: what the driving caller throws in must be distinguished from what the plugin itself raises.
        value: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                effect = steps.send(value) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return passed(end.value, arguments)
            except BaseException as raised:
                if raised is thrown or isinstance(raised, OutOfBudgetError):
                    raise
                bug = contained(raised)
                tell(method, bug)
                raise_again(bug, raised)
            value = thrown = None
            expected = _wrong_effect(effect)
            if expected is not None:
                wrong = WrongAnswer(f"{where} yielded {shown(effect)}{_place_of_yield(steps)}, but {expected}")
                steps.close()
                tell(method, wrong)
                raise wrong
            try:
                value = yield effect
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as into:
                thrown = into

    is_stepwise, may_be_none, is_handler = method in STEPWISE, method in _MAY_BE_NONE, method in _HANDLERS
    may_be_int = check is _score
    parameters = [each for each in contract()[method].parameters if each != "self"]
    kept = [(place, _KEPT[name]) for place, name in enumerate(parameters) if name in _KEPT]

    @functools.wraps(getattr(own, method))
    def guard(self: Any, *arguments: Any) -> Any:
        call = getattr(own, method)
        if kept:
            given = list(arguments)
            for place, face in kept:
                given[place] = face(given[place])
            arguments = tuple(given)
        try:
            answer = call(*arguments) if is_bound else call(self, *arguments)
        except BaseException as raised:
            if isinstance(raised, OutOfBudgetError) and not is_handler:
                raise
            bug = contained(raised)
            tell(method, bug)
            if is_handler:  # nobody waits for an answer, so reporting it is all there is to do
                return None
            raise_again(bug, raised)
        # Most answers are one of these, and some methods are called for each node.
        if (answer is None and may_be_none) or (may_be_int and type(answer) is int and -_LARGE < answer < _LARGE):
            return answer
        if is_stepwise and isinstance(answer, Generator):
            return stepwise(answer, arguments)
        return passed(answer, arguments)

    return guard


_KEPT: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("a", "assignments", "b", "diagnosis", "load", "nodes", "parent", "queued", "rows", "scores", "table"),
            faces.shown,
        ),
        "heads": faces.each_shown,
    }
)
"""What replaces an argument, by the parameter's name in the contract. All other arguments are immutable data."""


def _watched(health: PluginHealth, name: str, guard: Callable[..., Any]) -> Callable[..., Any]:
    """Return a guarded method that counts its calls and, if that is allowed, is not called while its plugin is out."""
    may_be_left_out, while_out, has_state = name in _WHILE_OUT, _WHILE_OUT.get(name), name != "pre_enqueue"
    lane = _lane(name)
    tally, rounds = health.tally(lane), health.rounds
    is_in_rounds = lane == "attempts"

    @functools.wraps(guard)
    def watched(self: Any, *arguments: Any) -> Any:
        if may_be_left_out:
            # An attempt that has begun without the plugin goes on without it, even if its pause has ended by now.
            is_out = health.state == "out" or health.name in arguments[0].taken_out if has_state else health.is_out()
            if is_out:
                return while_out
        if not (is_in_rounds and tally.in_round == rounds.number):  # else noted already; some are called for each node
            health.called(lane)
        return guard(self, *arguments)

    return watched


_NO_WORK = frozenset(
    {"figures", "explain_rejection", "explain_score", "remedies", "lesser_requests", "events_to_register"}
)
"""The methods on which no attempt depends: what they raise says nothing about the plugin's health."""


def _lane(method: str) -> Lane:
    if method == "pre_enqueue":
        return "queueing"
    return "events" if method in _HANDLERS else "attempts"


_WHILE_OUT: Mapping[str, Any] = MappingProxyType(
    {
        "pre_enqueue": None,
        "post_filter": (None, unschedulable("it is left out, since it fails again and again")),
        "reserve": None,
        "permit": None,
        "pre_bind_pre_flight": SKIP,
        "pre_bind": None,
        "bind": SKIP,
        "post_bind": None,
    }
)
"""The answers assumed for a plugin that is out. Methods that are not here are called even then (`pod_added`,
`unreserve`: it must know the state once it is back), or not at all: see `Profile.run_pre_filter`.
"""

_LARGE = 1 << 62
_MAY_BE_NONE = frozenset(
    {
        "pre_enqueue", "pre_filter", "add_pod", "remove_pod", "filter", "pre_score", "reserve", "unreserve", "permit",
        "post_bind", "narrow",
    }
)  # fmt: skip
_HANDLERS = frozenset({"pod_added", "pod_updated", "pod_removed"})
_WITH_FUNCTIONS = frozenset({"filter_columns", "filter_loaded_columns", "events_to_register"})


def _home(own: type, method: str) -> type:
    """Return the class of the MRO that defines a method."""
    return next(each for each in own.__mro__ if method in vars(each))


def _look_into(answer: Any, where: str) -> Any:
    """Return an answer with the functions in it guarded as well: descriptions of codes, and hints."""
    if isinstance(answer, FilterColumn):
        return FilterColumn(answer.codes, _guarded_describe(answer.describe, where))
    if isinstance(answer, list | tuple):
        return [_with_guarded_hint(each, where) if isinstance(each, ClusterEventWithHint) else each for each in answer]
    return answer


def _with_guarded_hint(entry: ClusterEventWithHint, where: str) -> ClusterEventWithHint:
    return entry._replace(hint=_guarded_hint(entry.hint, where)) if callable(entry.hint) else entry


def _guarded_describe(describe: Callable[[int], Status], where: str) -> Callable[[int], Status]:
    def described(code: int) -> Status:
        try:
            status = describe(code)
        except BaseException as raised:
            raise_again(contained(raised), raised)
        if _rejection(status) is not None:
            raise WrongAnswer(
                f"{where}: describe({code}) returned {shown(status)}, but a Status that rejects is expected"
            )
        return status

    return described


def _guarded_hint(hint: HintFunction, where: str) -> HintFunction:
    @functools.wraps(hint)
    def hinted(pod: Any, old: Any, new: Any) -> QueueingHint:
        try:
            answer = hint(pod, old, new)
        except BaseException as raised:
            raise_again(contained(raised), raised)
        if not isinstance(answer, QueueingHint):
            raise WrongAnswer(f"{where}: a hint returned {shown(answer)}, but a QueueingHint is expected")
        return answer

    return hinted


# --- what each method may yield ---------------------------------------------------------------------------------------


def _wrong_effect(effect: Any) -> Fault:
    if isinstance(effect, ApiCall):
        return _wrong_call(effect)
    if isinstance(effect, WaitUntil):
        is_number = isinstance(effect.deadline, int | float) and not isinstance(effect.deadline, bool)
        is_right = callable(effect.predicate) and is_number
        return None if is_right else "WaitUntil(predicate, deadline) takes a function and a time of handle.now()"
    if isinstance(effect, Answerable):
        return None
    return "an ApiCall or a WaitUntil is expected"


def _wrong_call(call: ApiCall) -> Fault:
    verbs = get_args(ApiVerb)
    if call.verb not in verbs:
        return f"the verb of an ApiCall is one of {', '.join(verbs)}"
    for field in ("kind", "namespace", "name", "subresource"):
        if not isinstance(getattr(call, field), str):
            return f"the {field} of an ApiCall is a string"
    return None if isinstance(call.body, Mapping) else "the body of an ApiCall is a mapping"


def _place_of_yield(steps: Generator[Any, Any, Any]) -> str:
    """Return where a generator waits, in the plugin's own code."""
    inner: Any = steps
    while isinstance(inner.gi_yieldfrom, Generator):
        inner = inner.gi_yieldfrom
    frame = inner.gi_frame
    return f" ({place_in(frame.f_code.co_filename, frame.f_globals['__name__'], frame.f_lineno)})" if frame else ""


# --- what each method may answer --------------------------------------------------------------------------------------


def _status(*allowed: Code) -> Check:
    """Return the check of an answer that is a Status or None; Skip and Wait only where they have a meaning."""
    odd = {Code.SKIP, Code.WAIT} - set(allowed)

    def check(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
        if answer is None:
            return None
        if not isinstance(answer, Status):
            return "a Status or None is expected"
        if answer.code in odd:
            return f"the code {answer.code.label} means nothing here"
        return _wrong_reasons(answer)

    return check


def _wrong_reasons(status: Status) -> Fault:
    if not isinstance(status.code, Code):
        return f"its code is {shown(status.code)}, not a Code"
    if not (_are_texts(status.reasons) and _are_texts(status.in_general)):
        return "the reasons of a Status are a tuple of strings"
    return None if _are_texts(status.lacking) else "what a Status calls lacking is a tuple of strings"


def _are_texts(texts: Any) -> bool:
    return isinstance(texts, tuple) and all(isinstance(text, str) for text in texts)


def _rejection(answer: Any) -> Fault:
    if not isinstance(answer, Status) or answer.code is Code.SUCCESS:
        return "a Status that rejects is expected"
    return _wrong_reasons(answer)


def _pre_filter(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, PreFilterResult):
        names = answer.node_names
        if names is None or (isinstance(names, frozenset | set) and all(isinstance(name, str) for name in names)):
            return None
        return "its node_names are a frozenset of node names, or None for all"
    if answer is not None and not isinstance(answer, Status):
        return "None, a Status or a PreFilterResult is expected"
    return _status(Code.SKIP)(answer, arguments)


def _pre_flight(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, PreBindPreFlightResult):
        return None
    if answer is not None and not isinstance(answer, Status):
        return "None, a Status or a PreBindPreFlightResult is expected"
    return _status(Code.SKIP)(answer, arguments)


def _is_whole(answer: Any) -> bool:
    return isinstance(answer, int | np.integer) and not isinstance(answer, bool | np.bool_)


_INT64 = np.iinfo(np.int64)


def _score(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, Status):
        return _status()(answer, arguments)
    if not _is_whole(answer):
        return "an int or a Status is expected"
    return None if _INT64.min <= answer <= _INT64.max else "an int of 64 bits is expected"


def _row_answer(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    return None if _is_whole(answer) else "an int is expected"


def _true_or_false(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    return None if isinstance(answer, bool | np.bool_) else "True or False is expected"


def _row_count(arguments: tuple[Any, ...]) -> int:
    """Return how many rows a column form was asked about: (state, pod, table, rows, …)."""
    table, rows = arguments[2], arguments[3]
    return len(table.valid[rows])


def _wrong_column(column: Any, dtype: type[np.generic], count: int, what: str) -> Fault:
    expected = f"{what} as a NumPy array of {dtype.__name__} and shape ({count},) are expected"
    if not isinstance(column, np.ndarray):
        return expected
    if column.dtype != dtype or column.shape != (count,):
        return f"{expected}; it has dtype {column.dtype} and shape {column.shape}"
    return None


def _filter_column(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if not isinstance(answer, FilterColumn):
        return "a FilterColumn(codes, describe) is expected"
    if not callable(answer.describe):
        return "its describe is a function from a code to a Status"
    return _wrong_column(answer.codes, np.int32, _row_count(arguments), "codes")


def _score_column(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, Status):
        return _status()(answer, arguments)
    return _wrong_column(answer, np.int64, _row_count(arguments), "scores")


def _normalized(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, Status):
        return _status()(answer, arguments)
    return _wrong_column(answer, np.int64, len(arguments[2]), "scores")


def _post_filter(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if not isinstance(answer, tuple) or isinstance(answer, PostFilterResult) or len(answer) != 2:
        return "a tuple (PostFilterResult or None, Status or None) is expected"
    result, status = answer
    if result is not None and not isinstance(result, PostFilterResult):
        return "its first part is a PostFilterResult or None"
    return _status()(status, arguments)


def _narrow(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if not isinstance(answer, Narrowed):
        return "None or a Narrowed(mask, status) is expected"
    mask, shape = answer.mask, arguments[2].mask.shape
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != shape:
        return f"its mask is a NumPy array of bool and shape {shape}"
    return _rejection(answer.status)


def _permit(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if not isinstance(answer, tuple) or len(answer) != 2:
        return "None or a tuple (Status or None, seconds) is expected"
    status, seconds = answer
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "its second part is the seconds to wait at most"
    return _status(Code.WAIT)(status, arguments)


def _signature(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    try:
        return None if isinstance(answer, Hashable) and hash(answer) is not None else "something hashable is expected"
    except TypeError:
        return "something hashable is expected, all the way down"


def _next_tenant(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    return _signature(answer, arguments) or (None if answer in arguments[0] else "one of the tenants is expected")


def _placements(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, Status):
        return _status()(answer, arguments)
    if isinstance(answer, Sequence) and all(isinstance(each, Placement) for each in answer):
        return None
    return "a sequence of Placement or a Status is expected"


def _placement_scores(answer: Any, arguments: tuple[Any, ...]) -> Fault:
    if isinstance(answer, Status):
        return _status()(answer, arguments)
    if isinstance(answer, Sequence) and len(answer) == len(arguments[1]) and all(map(_is_whole, answer)):
        return None
    return f"{len(arguments[1])} ints or a Status are expected"


def _filter_domains(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    if answer is None:
        return None
    if not isinstance(answer, DomainCodes):
        return "a DomainCodes or None is expected"
    if not callable(answer.describe):
        return "its describe is a function"
    return _score_domains(answer.codes, _arguments)


def _score_domains(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    if answer is None:
        return None
    if not isinstance(answer, OverDomains):
        return "an OverDomains or None is expected"
    for array in (answer.ids, answer.values):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "i":
            return "its ids and values are arrays of integers with one dimension"
    if len(answer.values) <= int(answer.ids.max(initial=-1)) or int(answer.ids.min(initial=-1)) < -1:
        return "its ids are places in its values, or -1"
    return None


def _figures(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    if not isinstance(answer, list | tuple) or not all(isinstance(each, Figure) for each in answer):
        return "a list of Figure is expected"
    labels: dict[str, tuple[str, ...]] = {}
    for name, own, number in answer:
        words = (name, *own)
        if not all(isinstance(word, str) and _SNAKE_CASE.fullmatch(word) for word in words):
            return f"the name of a figure and its labels are in snake_case, not {shown(words)}"
        if labels.setdefault(name, words[1:]) != words[1:]:
            return f"all figures called {name} have the same labels"
        if isinstance(number, bool) or not isinstance(number, int | float):
            return f"the figure {name} is a number"
    return None


def _sentences(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    return None if isinstance(answer, list | tuple) and _are_texts(tuple(answer)) else "a list of strings is expected"


def _remedies(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    are_remedies = isinstance(answer, list | tuple) and all(isinstance(each, Remedy) for each in answer)
    return None if are_remedies else "a list of Remedy is expected"


def _amounts(answer: Any, _arguments: tuple[Any, ...]) -> Fault:
    is_right = isinstance(answer, Mapping) and all(
        isinstance(name, str) and isinstance(amount, int) and amount >= 0 for name, amount in answer.items()
    )
    return None if is_right else "a mapping of resources to integers that are not negative is expected"


_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        **dict.fromkeys(_HANDLERS, lambda _answer, _arguments: None),
        "pre_enqueue": _status(),
        "less": _true_or_false,
        "sort_key": lambda _answer, _arguments: None,
        "tenant_of": _signature,
        "next_tenant": _next_tenant,
        "pre_filter": _pre_filter,
        "add_pod": _status(),
        "remove_pod": _status(),
        "filter": _status(),
        "filter_columns": _filter_column,
        "load_limits": lambda _answer, _arguments: None,
        "filter_loaded_columns": _filter_column,
        "filter_row": _row_answer,
        "filter_domains": _filter_domains,
        "is_affected_by": _true_or_false,
        "post_filter": _post_filter,
        "narrow": _narrow,
        "pre_score": _status(Code.SKIP),
        "score": _score,
        "score_columns": _score_column,
        "score_row": _row_answer,
        "score_domains": _score_domains,
        "normalize_score": _normalized,
        "signature": _signature,
        "node_signature": _signature,
        "figures": _figures,
        "explain_rejection": _sentences,
        "explain_score": _sentences,
        "remedies": _remedies,
        "lesser_requests": _amounts,
        "reserve": _status(),
        "unreserve": lambda _answer, _arguments: None,
        "permit": _permit,
        "pre_bind_pre_flight": _pre_flight,
        "pre_bind": _status(Code.SKIP),
        "bind": _status(Code.SKIP),
        "post_bind": lambda _answer, _arguments: None,
        "placement_generate": _placements,
        "placement_score": _score,
        "normalize_placement_scores": _placement_scores,
        "events_to_register": lambda _answer, _arguments: None,
    }
)
"""The check of each method's answer. That of `events_to_register` is looked at when the profile is built."""
