"""What expressions cost: upstream's own tables, and that what is counted keeps up with what is done.

The tables are those of cel-go's interpreter/runtimecost_test.go (v0.26) and of k8s.io/apiserver's
pkg/cel/library/cost_test.go (v1.36), less what constant lists cost, which Kubernetes has computed beforehand.
"""

import re
import tracemalloc
from random import Random

import pytest

from berth.cel.library import Environment
from berth.cel.program import MAX_GROWTH, LimitError
from packages.scheduler.tests.cel.expressions import VARIABLES, Expressions
from tests.effort import examples, instructions

LONG = "x" * 500
LIMIT = 1_000_000
INSTRUCTIONS_A_STEP = 250
"""How many bytecode instructions a microsecond of a core is, and how many bytes are written in it."""


def program_of(text, *variables):
    environment = Environment(*variables, has_bind=True)
    return environment.program(environment.check(text).tree)


@pytest.mark.parametrize(
    ("text", "variables", "cost"),
    [
        ("input['ke' + 'y']", {"input": {"key": "v"}}, 3),
        ("input[3-3]", {"input": ["v"]}, 3),
        ("has(input.testAttr.nestedAttr)", {"input": {"testAttr": {"nestedAttr": "0"}}}, 2),
        ("input.all(x, true)", {"input": []}, 2),
        ("input.all(x, x.all(y, true))", {"input": []}, 2),
        ("[1, 2, 3].all(x, true)", {}, 10),
        ("input.matches('[0-9]')", {"input": LONG}, 103),
        ("'123'.matches('[0-9]')", {}, 2),
        ("a || b || c || d", dict.fromkeys("abcd", False), 4),
        ("a && b && c && d", dict.fromkeys("abcd", True), 4),
        ("2 >= 1", {}, 1),
        ("2 in [1, 2, 3]", {}, 0),
        ("2 in input", {"input": [1, 2, 3]}, 4),
        ("true ? 1 : 2", {}, 0),
        ("size('123')", {}, 1),
        ("'12345678901234567890' == '123456789012345678901234567890'", {}, 2),
        ("bytes(input)", {"input": LONG}, 51),
        ("input.contains(arg1)", {"input": LONG, "arg1": LONG}, 2502),
        ("input.matches('\\\\d+a\\\\d+b')", {"input": LONG}, 103),
        ("input.startsWith(arg1)", {"input": "idc", "arg1": LONG}, 3),
        ("input.size()", {"input": "500"}, 2),
        ("(x > 2 ? input1 : input2).all(y, true)", {"input1": [{}], "input2": [{}], "x": 1}, 6),
        ("false ? false : 1 > 3", {}, 1),
        ("input.all(k, input[k].single_int32 > 3)", {"input": {"val": {"single_int32": 0}}}, 9),
        ("(list1 + list2).all(x, true)", {"list1": [], "list2": []}, 4),
        ("'abcdefg'.contains(str1 + str2)", {"str1": "val1", "str2": "val2222222"}, 6),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", {}, 3),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", {}, 9),
        ("strings.quote('ABCDEFGHIJ abcdefghij')", {}, 3),
        ("'abc 123 def 123'.replace('123', '456')", {}, 3),
        ("'abc 123 def 123'.replace('', 'x')", {}, 3),
        ("'abc 123 def 123'.split(' ', 1)", {}, 3),
        ("'abc 123 def 123'.substring(5, 8)", {}, 2),
        ("'  abc 123 def 123  '.trim()", {}, 2),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", {}, 5),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join()", {}, 3),
        ("quantity('12Mi')", {}, 1),
        ("quantity('200M') == quantity('0.2G') && quantity('0.2G') == quantity('200M')", {}, 6),
        ("quantity('50M').isLessThan(quantity('50Mi'))", {}, 3),
    ],
)
def test_costs_are_upstreams(text, variables, cost):
    program = program_of(text, *variables)
    evaluation = program.start(variables, LIMIT)
    program.run(evaluation)
    assert evaluation.cost == cost


_TOKENS = re.compile(r"""\d+\.\d+|\w+|"[^"]*"|'[^']*'|&&|\|\||[=!<>]=|\S""")
_GAPS = (" ", "\n", "\t  ", " // a comment: .replace(.map(x, cel.bind( +\n")


def spread(text, random):
    """An expression with blanks and comments between its tokens."""
    return "".join(token + random.choice(_GAPS) for token in _TOKENS.findall(text))


def test_blanks_and_comments_change_nothing():
    environment = Environment(*VARIABLES, has_bind=True)
    for seed in range(examples(300)):
        text = Expressions(seed).flag(3)
        assert environment.check(text).tree == environment.check(spread(text, Random(seed))).tree, text


def replaced(size):
    """Texts that are made ten times as long, `size` times, each made of the one before."""
    made = f"v{size}.size() > 0"
    for level in range(size, 0, -1):
        made = f"cel.bind(v{level}, v{level - 1}.replace('x', 'xxxxxxxxxx'), {made})"
    return f"cel.bind(v0, 'xxxxxxxxxx', {made})"


def doubled(size, kind="'x'"):
    made = f"v{size}.size() > 0"
    for level in range(size, 0, -1):
        made = f"cel.bind(v{level}, v{level - 1} + v{level - 1}, {made})"
    return f"cel.bind(v0, {kind}, {made})"


def shared(size):
    """Two equal lists that hold the same list ten times over, which holds another, `size` levels deep."""
    one, made = "v0", f"v{size} == w{size}"
    for level in range(size, 0, -1):
        ten = ", ".join(["{}"] * 10)
        made = (
            f"cel.bind(v{level}, [{ten.replace('{}', f'v{level - 1}')}], "
            f"cel.bind(w{level}, [{ten.replace('{}', f'w{level - 1}')}], {made}))"
        )
    return f"cel.bind({one}, [1], cel.bind(w0, [1], {made}))"


def nested(size, macro="all(v, "):
    ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    return f"{ten}.{macro}" * size + "true" + ")" * size


FAMILIES = {
    "plain": (lambda size: " && ".join(["self.name != 'x'"] * size), (10, 100)),
    "long texts": (lambda size: f"'{'x' * size}'.replace('x', 'yy').lowerAscii() != ''", (10_000, 90_000)),
    "texts in texts": (replaced, (3, 5)),
    "doubled texts": (doubled, (12, 18)),
    "doubled lists": (lambda size: doubled(size, "[1]"), (10, 16)),
    "lists in lists": (shared, (2, 4)),
    "macros in macros": (nested, (2, 4)),
    "lists of lists": (lambda size: nested(size, "map(v, ").replace("true", "1") + ".size() > 0", (2, 3)),
    "joined": (lambda size: f"[{', '.join(['self.name'] * size)}].join(', ') != ''", (10, 1000)),
    "split": (lambda size: f"'{'x,' * size}'.split(',').size() > 0", (100, 20_000)),
    "written": (lambda size: f"'{'%s' * size}'.format([{', '.join(['self.tags'] * size)}]) != ''", (10, 1000)),
    "patterns": (lambda size: f"self.tags.map(v, '{'x' * size}').all(v, v.matches('x+y'))", (100, 20_000)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_counted_keeps_up_with_what_is_done(family):
    """What is done is counted in bytecode instructions, and what is kept meanwhile in bytes, for two sizes each."""
    make, sizes = FAMILIES[family]
    counted, done = zip(*(counted_and_done(make(size)) for size in sizes), strict=True)
    assert all(steps * 2 > work for steps, work in zip(counted, done, strict=True)), (counted, done)
    assert counted[1] / counted[0] > done[1] / done[0] / 3, (counted, done)


def counted_and_done(text):
    """What an evaluation counts in an attempt's budget, and what it does, in the same measure: about microseconds."""
    program = program_of(text, *VARIABLES)
    program.run(program.start(VARIABLES, LIMIT))  # so that what is made only once is there
    first, second = program.start(VARIABLES, LIMIT), program.start(VARIABLES, LIMIT)
    tracemalloc.start()
    program.run(first)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10_000, "what an evaluation has taken is given back"
    return first.steps, (instructions(lambda: program.run(second)) + most) // INSTRUCTIONS_A_STEP


@pytest.mark.parametrize("text", [doubled(26), doubled(26, "[1]"), shared(9), nested(9), replaced(9)])
def test_whatever_grows_beyond_bounds_is_ended(text):
    program = program_of(text, *VARIABLES)
    evaluation = program.start(VARIABLES, LIMIT)
    with pytest.raises(LimitError, match=r"operation cancelled: (actual cost limit exceeded|its values have become)"):
        program.run(evaluation)
    assert evaluation.steps < LIMIT


@pytest.mark.parametrize("text", [doubled(26), doubled(26, "[1]"), replaced(9)])
def test_what_grows_beyond_bounds_never_takes_more_memory_than_the_bound(text):
    program = program_of(text, *VARIABLES)
    tracemalloc.start()
    with pytest.raises(LimitError):
        program.run(program.start(VARIABLES, LIMIT))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * MAX_GROWTH
