"""A compiled expression, ready to be evaluated: closures made of its syntax tree, which count what they do.

Each closure takes the `Evaluation` and returns a value. What it does is counted twice. `cost` is counted in upstream's
units, step by step as upstream's interpreter does, so that an expression ends here where it ends there. `growth` counts
what those units leave out: how large values become, and how many of their parts are compared. It bounds the time and
the memory that one evaluation can take, and is far beyond what an expression within its cost needs for anything useful.

Values are Python's and live no longer than the evaluation. Source: cel-go's interpreter, as k8s.io/apiserver/pkg/cel
configures it in v1.36: constant lists and maps, and conversions of constants, cost nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from berth.cel.costs import FIELD_COST, LIST_COST, MAP_COST, VARIABLE_COST, call_cost
from berth.cel.functions import FUNCTIONS, GrowingList
from berth.cel.syntax import (
    Comprehension,
    FieldSelection,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    SyntaxNode,
)
from berth.cel.values import (
    ABSENT,
    TYPES,
    EvaluationError,
    OptionalValue,
    TypeName,
    as_key,
    is_number,
    keys_of,
    no_overload,
    type_of,
)

MAX_GROWTH = 1 << 26
"""How many characters one evaluation may make and go through, all its values together."""
PLAIN_STEPS = 2
COST_PER_STEP = 4
GROWTH_PER_STEP = 250
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_SELECTING = frozenset({"_[_]", "_[?_]", "_?._"})
_LOGICAL = frozenset({"_&&_", "_||_"})
_UNSET = object()


class CompileError(Exception):
    """A text is not an expression, or not one that can be evaluated; the text says why."""


class LimitError(Exception):
    """An evaluation has cost more than it may, or its values have become too large."""


class Evaluation:
    """What one evaluation has counted so far, and what its variables are."""

    __slots__ = ("cost", "growth", "limit", "slots", "spent")

    def __init__(self, limit: int, slots: list[Any]) -> None:
        self.cost = 0
        """What it has cost, in upstream's units."""
        self.growth = 0
        self.spent = 0
        self.limit = limit
        self.slots = slots

    @property
    def steps(self) -> int:
        """About how many microseconds it has taken."""
        return PLAIN_STEPS + self.spent + self.cost // COST_PER_STEP + self.growth // GROWTH_PER_STEP

    def spend(self, steps: int) -> None:
        """Note so many microseconds' work."""
        self.spent += steps

    def grow(self, size: int) -> None:
        """Note that so many characters are about to be made or gone through. Raises `LimitError`."""
        self.growth += size
        if self.growth > MAX_GROWTH:
            raise LimitError("operation cancelled: its values have become too large")

    def check(self) -> None:
        """Raise `LimitError` where the evaluation has cost more than it may."""
        if self.cost > self.limit:
            raise LimitError("operation cancelled: actual cost limit exceeded")


Closure = Callable[[Evaluation], Any]
Qualifier = tuple[Any, Closure | None, bool]
"""A key that is selected by: the key, or how it is computed, and whether it may be missing (`.?`)."""


class Program:
    """An expression that can be evaluated any number of times."""

    __slots__ = ("_run", "_size", "_variables")

    def __init__(self, tree: SyntaxNode, variables: Sequence[str], *, types_are_known: bool) -> None:
        """Raises `CompileError`. The variables are those that the expression may use."""
        self._variables = tuple(variables)
        planner = _Planner(self._variables, types_are_known)
        self._run = planner.plan(tree)
        self._size = planner.size

    def start(self, variables: Mapping[str, Any], limit: int) -> Evaluation:
        """Return an evaluation with values for the variables, which may cost at most `limit`."""
        slots = [_UNSET] * self._size
        for number, name in enumerate(self._variables):
            slots[number] = variables[name]
        return Evaluation(limit, slots)

    def run(self, evaluation: Evaluation) -> Any:
        """Return the value. Raises `EvaluationError` or `LimitError`; what was spent stands in the evaluation."""
        try:
            value = self._run(evaluation)
        except RecursionError:
            raise EvaluationError("values are nested too deeply") from None
        finally:
            evaluation.slots.clear()
        evaluation.check()
        return value


class _Planner:
    """Makes the closures. Each variable, those of macros too, has a slot, and a scope says which name means which."""

    def __init__(self, variables: Sequence[str], types_are_known: bool) -> None:
        self._scope: dict[str, Closure] = {name: _slot(number) for number, name in enumerate(variables)}
        self._types_are_known = types_are_known
        self.size = len(variables)

    def plan(self, node: SyntaxNode) -> Closure:
        """Return the closure of a node."""
        constant = _constant(node)
        if constant is not None:
            value = constant.value
            return lambda _: value
        if isinstance(node, FieldSelection) and node.is_test:
            return self._test(node)
        if isinstance(node, Identifier | FieldSelection):
            return self._selection(node)
        if isinstance(node, FunctionCall):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._comprehension(node)
        raise CompileError("messages of protobuf are not supported")

    # Variables, fields and indexes

    def _selection(self, node: SyntaxNode, then: Sequence[Qualifier] = (), *, counts: bool = True) -> Closure:
        """Return the closure of `a.b["c"]`, in one step: of a variable or value, and of the qualifiers that follow.

        What selects, and the branches of a conditional, cost their qualifiers only (`counts`); what follows a
        conditional is selected from its branches (`then`).
        """
        qualifiers = list(then)
        while (step := self._qualifier(node)) is not None:
            node, qualifier = step
            qualifiers.insert(0, qualifier)
        if isinstance(node, FunctionCall) and node.function == "_?_:_":
            return self._conditional(node, qualifiers)
        if isinstance(node, Identifier) and node.name not in self._scope:
            return _type_name(node.name)
        is_variable = isinstance(node, Identifier)
        start = self._scope[node.name] if isinstance(node, Identifier) else self.plan(node)
        cost = VARIABLE_COST if counts and (is_variable or qualifiers) else 0
        return _path(start, cost, tuple(qualifiers)) if qualifiers else _costing(start, cost)

    def _qualifier(self, node: SyntaxNode) -> tuple[SyntaxNode, Qualifier] | None:
        """Return what a node selects from, and by what; None for a node that does not select."""
        if isinstance(node, FieldSelection) and not node.is_test:
            return node.operand, (node.field, None, False)
        if not isinstance(node, FunctionCall) or node.function not in _SELECTING:
            return None
        group, key = node.args
        may_miss, constant = node.function != "_[_]", _constant(key)
        if constant is not None:
            return group, (constant.value, None, may_miss)
        is_path = isinstance(key, Identifier) or self._qualifier(key) is not None
        return group, (None, self._selection(key, counts=False) if is_path else self.plan(key), may_miss)

    def _test(self, node: FieldSelection) -> Closure:
        """Return the closure of `has(operand.field)`, which costs what `operand` does."""
        start, field = self._selection(node.operand, counts=False), node.field

        def run(e: Evaluation) -> bool:
            value = start(e)
            e.cost += FIELD_COST
            if isinstance(value, OptionalValue):
                value = value.value
            return isinstance(value, dict) and _found(value, field) is not _UNSET

        return run

    def _conditional(self, node: FunctionCall, qualifiers: Sequence[Qualifier]) -> Closure:
        condition = self.plan(node.args[0])
        true, false = (self._selection(each, qualifiers, counts=False) for each in node.args[1:])

        def run(e: Evaluation) -> Any:
            chosen = condition(e)
            if chosen is True:
                return true(e)
            if chosen is False:
                return false(e)
            raise no_overload()

        return run

    # Calls

    def _call(self, node: FunctionCall) -> Closure:
        name = node.function
        if name in _SELECTING or name == "_?_:_":
            return self._selection(node)
        if name in _LOGICAL:
            return _logical([self.plan(each) for each in _terms(node, name)], ends=name == "_||_")
        args = [self.plan(each) for each in node.args]
        if name == "@not_strictly_false":
            return _not_strictly_false(args[0])
        if name in ("or", "orValue") and node.is_method:
            return _alternative(args[0], args[1], name)
        if name == "@in" and isinstance(node.args[1], ListLiteral) and _constant(node.args[1]) is not None:
            return _member(args[0], args[1])
        function = FUNCTIONS.get(name)
        if function is None:
            raise CompileError(f"undeclared reference to '{name}'")
        return _call(function, args, call_cost(name, node.overload, types_are_known=self._types_are_known))

    # Lists and maps

    def _list(self, node: ListLiteral) -> Closure:
        elements = [(self.plan(each), number in node.optional) for number, each in enumerate(node.elements)]

        def run(e: Evaluation) -> list[Any]:
            made = []
            for element, is_optional in elements:
                value = element(e)
                if not is_optional:
                    made.append(value)
                elif not isinstance(value, OptionalValue):
                    raise EvaluationError("cannot initialize optional list element from non-optional value")
                elif value.is_there:
                    made.append(value.value)
            e.cost += LIST_COST
            return made

        return run

    def _map(self, node: MapLiteral) -> Closure:
        entries = [(self.plan(key), self.plan(value), is_optional) for key, value, is_optional in node.entries]

        def run(e: Evaluation) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key_of, value_of, is_optional in entries:
                key, value = as_key(key_of(e)), value_of(e)
                if is_optional:
                    if not isinstance(value, OptionalValue):
                        raise EvaluationError("cannot initialize optional entry from non-optional value")
                    if not value.is_there:
                        made.pop(key, None)
                        continue
                    value = value.value
                made[key] = value
            e.cost += MAP_COST
            return made

        return run

    # Loops

    def _comprehension(self, node: Comprehension) -> Closure:
        start, outer = self.plan(node.start), self._scope
        accumulator, variable = self.size, self.size + 1
        self.size += 2
        gathers = node.accumulator.startswith("@") and node.start == ListLiteral((), frozenset())
        computed = _accumulator(accumulator, start, gathers=gathers)
        if node.is_bind:
            elements = None
            self._scope = {**outer, node.accumulator: computed}
        else:
            elements = self.plan(node.range)
            self._scope = {**outer, node.accumulator: computed, node.variable: _slot(variable)}
            condition, step = self.plan(node.condition), self.plan(node.step)
            self._scope = {**outer, node.accumulator: computed}
        result = self.plan(node.result)
        self._scope = outer
        if elements is None:
            return _binding(accumulator, result)
        return _loop(elements, accumulator, variable, condition, step, result)


def _constant(node: SyntaxNode) -> Literal | None:
    """Return a node's value where upstream computes it when it compiles; None elsewhere."""
    if isinstance(node, Literal):
        return node
    if isinstance(node, ListLiteral) and not node.optional:
        elements = [_constant(each) for each in node.elements]
        return None if None in elements else Literal([each.value for each in elements if each is not None])
    if isinstance(node, MapLiteral):
        entries = [(_constant(key), _constant(value)) for key, value, is_optional in node.entries if not is_optional]
        if len(entries) < len(node.entries) or any(None in entry for entry in entries):
            return None
        return Literal({as_key(key.value): value.value for key, value in entries if key and value})
    if isinstance(node, FunctionCall) and node.function in _CONVERSIONS and len(node.args) == 1:
        given = _constant(node.args[0])
        return None if given is None else _converted(node.function, given.value)
    return None


def _converted(function: str, value: Any) -> Literal:
    try:
        return Literal(FUNCTIONS[function](Evaluation(0, []), value))
    except EvaluationError as error:
        raise CompileError(f"program instantiation failed: {error}") from None


def _terms(node: SyntaxNode, name: str) -> list[SyntaxNode]:
    """Return the terms of `a && b && c`, however they are nested."""
    if isinstance(node, FunctionCall) and node.function == name:
        return [term for each in node.args for term in _terms(each, name)]
    return [node]


def _slot(number: int) -> Closure:
    return lambda e: e.slots[number]


def _type_name(name: str) -> Closure:
    if name not in TYPES:
        raise CompileError(f"undeclared reference to '{name}'")
    found = TypeName(name)
    return lambda _: found


def _costing(closure: Closure, cost: int) -> Closure:
    if not cost:
        return closure

    def run(e: Evaluation) -> Any:
        e.cost += cost
        return closure(e)

    return run


def _path(start: Closure, cost: int, qualifiers: tuple[Qualifier, ...]) -> Closure:
    if any(computed is not None or is_optional for _, computed, is_optional in qualifiers):
        return _computed_path(start, cost, qualifiers)
    keys = tuple(key for key, _, _ in qualifiers)
    known = FIELD_COST * len(keys) + cost

    def run(e: Evaluation) -> Any:
        value = start(e)
        e.cost += known
        if type(value) is OptionalValue:
            return _through_optional(value, keys)
        for key in keys:
            value = _selected(value, key)
        return value

    return run


def _computed_path(start: Closure, cost: int, qualifiers: tuple[Qualifier, ...]) -> Closure:
    def run(e: Evaluation) -> Any:
        value, is_optional = start(e), False
        e.cost += cost
        if type(value) is OptionalValue:
            if not value.is_there:
                return value
            value, is_optional = value.value, True
        for fixed, computed, may_miss in qualifiers:
            key = fixed if computed is None else computed(e)
            is_optional |= may_miss
            if is_optional:
                value = _found(value, key)
                if value is _UNSET:
                    return ABSENT
                e.cost += FIELD_COST
            else:
                e.cost += FIELD_COST
                value = _selected(value, key)
        return OptionalValue(True, value) if is_optional else value

    return run


def _through_optional(optional: OptionalValue, keys: Sequence[Any]) -> OptionalValue:
    value = optional.value
    for key in keys if optional.is_there else ():
        value = _found(value, key)
        if value is _UNSET:
            return ABSENT
    return OptionalValue(True, value) if optional.is_there else optional


def _selected(value: Any, key: Any) -> Any:
    """Return what is in a map or list under a key. Raises `EvaluationError`."""
    found = _found(value, key)
    if found is _UNSET:
        what = "index out of bounds" if isinstance(value, list) else "no such key"
        raise EvaluationError(f"{what}: {str(key).lower() if isinstance(key, bool) else key}")
    return found


def _found(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        try:
            return value[key if type(key) is str else as_key(key)]
        except KeyError:
            return _UNSET
    if isinstance(value, list):
        if not is_number(key) or key % 1:
            raise EvaluationError(f"unsupported index type in list: {key}")
        return value[int(key)] if 0 <= key < len(value) else _UNSET
    return _UNSET


def _logical(terms: Sequence[Closure], *, ends: bool) -> Closure:
    """Return the closure of `||` (which ends with true) or `&&`: an error counts only if no term decides."""

    def run(e: Evaluation) -> bool:
        failure = None
        for term in terms:
            try:
                value = term(e)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is not True and value is not False:
                failure = failure or no_overload()
            elif value == ends:
                return ends
        if failure is not None:
            raise failure
        return not ends

    return run


def _not_strictly_false(arg: Closure) -> Closure:
    def run(e: Evaluation) -> bool:
        e.cost += 1
        try:
            found = arg(e)
        except EvaluationError:
            return True
        return found is not False

    return run


def _alternative(optional: Closure, other: Closure, name: str) -> Closure:
    def run(e: Evaluation) -> Any:
        value = optional(e)
        if not isinstance(value, OptionalValue):
            raise no_overload(name)
        if value.is_there:
            return value if name == "or" else value.value
        return other(e)

    return run


def _member(value: Closure, group: Closure) -> Closure:
    """Return the closure of `value in [constants]`, which costs nothing."""
    contains = FUNCTIONS["@in"]
    return lambda e: contains(e, value(e), group(e))


def _call(function: Callable[..., Any], args: Sequence[Closure], cost: Callable[..., int] | None) -> Closure:
    if len(args) == 2:
        one, other = args

        def run_two(e: Evaluation) -> Any:
            a, b = one(e), other(e)
            e.cost += 1 if cost is None else cost(a, b)
            if e.cost > e.limit:
                e.check()
            return function(e, a, b)

        return run_two

    def run(e: Evaluation) -> Any:
        values = [arg(e) for arg in args]
        e.cost += 1 if cost is None else cost(*values)
        if e.cost > e.limit:
            e.check()
        return function(e, *values)

    return run


def _accumulator(number: int, start: Closure, *, gathers: bool) -> Closure:
    """Return the closure of an accumulator or of a bound variable, which is computed when it is first asked for."""

    def run(e: Evaluation) -> Any:
        value = e.slots[number]
        if value is _UNSET:
            value = e.slots[number] = GrowingList() if gathers else start(e)
        elif type(value) is EvaluationError:
            raise value.with_traceback(None)
        return value

    return run


def _binding(number: int, result: Closure) -> Closure:
    def run(e: Evaluation) -> Any:
        e.slots[number] = _UNSET
        return result(e)

    return run


def _loop(
    elements: Closure, accumulator: int, variable: int, condition: Closure, step: Closure, result: Closure
) -> Closure:
    def run(e: Evaluation) -> Any:
        group = elements(e)
        if not isinstance(group, list | dict):
            raise EvaluationError(f"got '{type_of(group)}', expected iterable type")
        slots = e.slots
        slots[accumulator] = _UNSET
        for each in group if isinstance(group, list) else keys_of(group):
            slots[variable] = each
            if condition(e) is False:
                break
            try:
                slots[accumulator] = step(e)
            except EvaluationError as error:  # which the next step may do without, as `false || true` does
                slots[accumulator] = error
            if e.cost > e.limit:
                e.check()
        made = result(e)
        return list(made) if type(made) is GrowingList else made

    return run
