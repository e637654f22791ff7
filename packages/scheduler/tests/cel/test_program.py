"""What expressions give: the CEL specification's rules, and the answers of the CEL project's own evaluator.

Errors are in the words of cel-go, which is what Kubernetes evaluates with.
"""

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from berth.cel.library import Environment
from berth.cel.program import CompileError, LimitError
from berth.cel.values import EvaluationError
from packages.scheduler.tests.cel.expressions import VARIABLES, Expressions
from tests.effort import examples

ENVIRONMENT = Environment(*VARIABLES, has_bind=True)
LIMIT = 1_000_000


def evaluated(text, limit=LIMIT, **variables):
    """The value of an expression, and what it took."""
    program = ENVIRONMENT.program(ENVIRONMENT.check(text).tree)
    evaluation = program.start({**VARIABLES, **variables}, limit)
    return program.run(evaluation), evaluation


def value(text, **variables):
    return evaluated(text, **variables)[0]


@pytest.mark.parametrize(
    "text",
    [
        # Values of different types are never equal, but for numbers.
        "dyn(1) == dyn(1u) && dyn(1) == 1.0 && dyn(1) != dyn(true) && dyn('1') != dyn(1) && [1] != dyn([true])",
        "dyn(0.0) == -0.0 && 0.0 / 0.0 != 0.0 / 0.0 && null == dyn(null)",
        "{'a': [1, {'b': 2}]} == {'a': [1, {'b': 2}]} && {'a': 1} != {'a': 2} && {'a': 1} != {'b': 1}",
        "{true: 'yes', false: 'no'}[true] == 'yes' && !(1 in dyn({true: 'yes'})) && {1: 2}[1] == 2",
        # Division and remainder go towards zero.
        "-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1 && 7.0 / 2.0 == 3.5",
        "1.0 / 0.0 == double('Infinity') && -1.0 / 0.0 == double('-Infinity')",
        "int(2.9) == 2 && int(-2.9) == -2 && uint(3) == 3u && double('1e3') == 1000.0 && int('-12') == -12",
        "string(1e6) == '1e+06' && string(1.5) == '1.5' && string(b'x') == 'x' && bytes('é') == b'é' && bool('t')",
        # `&&` and `||` need not know all their terms.
        "(1 / 0 == 1 || true) && !(false && 1 / 0 == 1)",
        "[0, 1].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)",
        "true ? true : 1 / 0 == 1",
        # What is bound is computed when it is used, and once.
        "cel.bind(x, 1 / 0, true) && cel.bind(x, [1, 2], x + x == [1, 2, 1, 2])",
        "cel.bind(x, [], x + [1] == [1] && x == []) && [[1], []].map(x, x + [2]) == [[1, 2], [2]]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && [1, 2].map(x, [3, 4].map(y, x * y)) == [[3, 4], [6, 8]]",
        "[1, 2].all(x, [x].exists(x, x > 0)) && {'a': 1, 'b': 2}.all(k, k in ['a', 'b'])",
        "optional.of({'a': {'b': 1}}).a.b.value() == 1 && !optional.of({'a': 1}).b.hasValue()",
        "self.?tags[?5].orValue('z') == 'z' && self.?name.or(optional.of('z')).value() == 'h100'",
        "[?optional.none(), ?optional.of(1)] == [1] && {?'a': optional.none()} == {}",
        "optional.ofNonZeroValue(0) == optional.none() && optional.ofNonZeroValue('a').value() == 'a'",
        "'aXbX'.replace('X', '-', 1) == 'a-bX' && 'ab'.replace('', '-') == '-a-b-'",
        "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc'] && 'abc'.split('c', 0) == []",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.substring(1, 2) == 'b' && 'abcabc'.lastIndexOf('b') == 4",
        "'é世'.size() == 2 && 'é世'.charAt(1) == '世'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"' && '%s: %d%%'.format(['x', 5]) == 'x: 5%'",
        "duration('1h30m').getMinutes() == 90 && duration('90s') + duration('30s') == duration('2m')",
        "timestamp('2024-02-29T12:00:00Z') + duration('24h') == timestamp('2024-03-01T12:00:00Z')",
        "timestamp('2024-01-01T00:30:00Z').getHours('+02:00') == 2 && timestamp(0).getFullYear() == 1970",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type && type(null) == null_type",
        "quantity('1Gi') == quantity('1024Mi') && quantity('1').add(1).asInteger() == 2 && sign(quantity('-1')) == -1",
        "semver('1.10.0').isGreaterThan(semver('1.9.0')) && isSemver('v1', true) && !isQuantity('x')",
    ],
)
def test_what_is_true(text):
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / (self.index - 3) == 1", "division by zero"),
        ("9223372036854775807 + self.index == 0", "integer overflow"),
        ("self.nothing == 1", "no such key: nothing"),
        ("self.tags[9] == 'a'", "index out of bounds: 9"),
        ("self.name + self.index == 'x'", "no such overload"),
        ("self.name < self.index", "no such overload"),
        ("self.index && true", "no such overload"),
        ("int(self.name) == 1", "type conversion error from 'string' to 'int'"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("self.name.substring(9) == ''", "index out of range: 9"),
        ("self.name.matches('(' + self.name)", "error parsing regexp: missing ): ("),
        ("'%d'.format([self.name]) == ''", "decimal clause can only be used on"),
        ("self.share.all(x, true)", "got 'double', expected iterable type"),
        ("timestamp('9999-12-31T00:00:00Z') + duration('48h') == timestamp(0)", "timestamp overflow"),
    ],
)
def test_what_fails_says_why(text, said):
    with pytest.raises(EvaluationError, match=said.replace("(", "\\(").replace(")", "\\)")):
        value(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 +", "compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input"),
        ("nobody", "undeclared reference to 'nobody'"),
        ("int('x') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("google.protobuf.Int64Value{value: 1} == 1", "messages of protobuf are not supported"),
        ("'abc'.reverse() == 'cba'", "undeclared reference to 'reverse'"),  # which Kubernetes' version does not have
    ],
)
def test_what_is_no_expression_is_refused(text, said):
    with pytest.raises(CompileError) as raised:
        value(text)
    assert said in str(raised.value)


def libraries_value(environment, text):
    """What the library's own evaluator says: a value, or that there is none."""
    result = environment.compile(text).eval(data=VARIABLES)
    return EvaluationError if result.type().name() in ("ERROR", "UNKNOWN") else result.plain_value()


def test_random_expressions_give_what_the_library_gives():
    extensions = [ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_optional.ExtOptional()]
    library = cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN), extensions=extensions)
    values = errors = 0
    for seed in range(examples(600)):
        text = Expressions(seed).flag(4)
        try:
            found = value(text)
        except EvaluationError:
            errors += 1
            found = EvaluationError
        except (CompileError, LimitError):  # a constant that cannot be converted, which the library finds when it runs
            continue
        assert found == libraries_value(library, text), text
        values += found is not EvaluationError
    assert values > errors > 0


@pytest.mark.parametrize("depth", [10, 29])
def test_what_the_library_can_parse_can_be_evaluated(depth):
    assert value("(" * depth + "true" + ")" * depth) is True
    assert value("[1].all(x, " * depth + "true" + ")" * depth) is True
    assert value(f"1{' + 1' * depth} == {depth + 1}") is True


def test_thousands_of_terms_are_no_depth():
    assert value(" && ".join(["self.ready"] * 5000)) is True


def test_values_that_are_nested_beyond_the_interpreters_depth_are_an_error():
    deep = []
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(EvaluationError, match="nested too deeply"):
        value("self == oldSelf", self=deep, oldSelf=[deep])
