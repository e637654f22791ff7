"""Random expressions that mean something, of growing size, from a seed; and what their variables are."""

from random import Random

VARIABLES = {
    "self": {"name": "h100", "index": 3, "ready": True, "tags": ["a", "b", "a"], "share": 0.5, "none": None},
    "oldSelf": {"name": "a100", "sizes": [1, 2, 3]},
}
TEXTS = ('"a"', '"h100"', '"abcabc"', '"é世"', '"a,b,,c"', "self.name", "oldSelf.name", "self.tags[0]")
NUMBERS = ("0", "1", "2", "-1", "7", "self.index", "oldSelf.sizes[1]")
FLAGS = ("true", "false", "self.ready", "has(self.name)", "has(self.nothing)", "self.nothing", '("a" in self.tags)')
SEARCHES = ("startsWith", "endsWith", "contains")


class Expressions:
    """A source of expressions."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.named = []  # variables of macros that may be used here, each with what it is
        self.count = 0

    def of(self, kind, depth):
        """An expression that is a flag, number, text, or list of numbers or texts."""
        return getattr(self, kind)(depth)

    def within(self, kind, make):
        """What `make` says with a new variable."""
        self.count += 1
        self.named.append((f"v{self.count}", kind))
        made = make(f"v{self.count}")
        self.named.pop()
        return made

    def known(self, kind):
        names = [name for name, of in self.named if of == kind]
        return self.random.choice(names) if names and self.random.random() < 0.5 else None

    def choose(self, *makers):
        return self.random.choice(makers)()

    def flag(self, depth):
        if depth <= 0:
            return self.random.choice(FLAGS)
        deeper = depth - 1

        def macro():
            name = self.random.choice(("all", "exists", "exists_one"))
            kind = self.random.choice(("number", "text"))
            group = self.of(f"{kind}s", deeper)
            return f"{group}.{name}({self.within(kind, lambda v: f'{v}, {self.flag(deeper)}')})"

        def bound():
            kind = self.random.choice(("number", "text"))
            value = self.of(kind, deeper)
            return f"cel.bind({self.within(kind, lambda v: f'{v}, {value}, {self.flag(deeper)}')})"

        def compared():
            kind = self.random.choice(("number", "text", "numbers", "texts"))
            order = self.random.choice(("==", "!=", "<", "<=", ">", ">=")[: 2 if kind.endswith("s") else 6])
            return f"({self.of(kind, deeper)} {order} {self.of(kind, deeper)})"

        return self.choose(
            lambda: f"({self.flag(deeper)} && {self.flag(deeper)})",
            lambda: f"({self.flag(deeper)} || {self.flag(deeper)})",
            lambda: f"!{self.flag(deeper)}",
            lambda: f"({self.flag(deeper)} ? {self.flag(deeper)} : {self.flag(deeper)})",
            lambda: f"({self.number(deeper)} in {self.numbers(deeper)})",
            lambda: (
                f"{self.text(deeper)}.{self.random.choice(('startsWith', 'endsWith', 'contains'))}({self.text(deeper)})"
            ),
            lambda: f"{self.text(deeper)}.matches('{self.random.choice(('^h', '[0-9]+', 'a|b', ''))}')",
            lambda: (
                f"(self.?{self.random.choice(('name', 'nothing'))}.orValue({self.text(deeper)}) == {self.text(deeper)})"
            ),
            lambda: f"optional.of({self.number(deeper)}).optMap(o, o + 1).hasValue()",
            lambda: f"({{'a': {self.number(deeper)}, 'b': 2}}['a'] == {self.number(deeper)})",
            macro,
            bound,
            compared,
        )

    def number(self, depth):
        if (known := self.known("number")) or depth <= 0:
            return known or self.random.choice(NUMBERS)
        deeper = depth - 1
        return self.choose(
            lambda: f"({self.number(deeper)} {self.random.choice('+-*/%')} {self.number(deeper)})",
            lambda: f"{self.text(deeper)}.size()",
            lambda: f"size({self.numbers(deeper)})",
            lambda: f"({self.flag(deeper)} ? {self.number(deeper)} : {self.number(deeper)})",
            lambda: f"{self.text(deeper)}.{self.random.choice(('indexOf', 'lastIndexOf'))}({self.text(deeper)})",
            lambda: f"{self.numbers(deeper)}[{self.number(deeper)}]",
            lambda: f"int({self.random.choice(('2.7', self.number(deeper), self.text(deeper)))})",
            lambda: f"(-{self.number(deeper)})",
        )

    def text(self, depth):
        if (known := self.known("text")) or depth <= 0:
            return known or self.random.choice(TEXTS)
        deeper = depth - 1
        return self.choose(
            lambda: f"({self.text(deeper)} + {self.text(deeper)})",
            lambda: f"{self.text(deeper)}.{self.random.choice(('lowerAscii', 'upperAscii', 'trim'))}()",
            lambda: f"{self.text(deeper)}.replace({self.text(deeper)}, {self.text(deeper)})",
            lambda: f"{self.text(deeper)}.substring({self.number(deeper)})",
            lambda: f"{self.text(deeper)}.charAt({self.number(deeper)})",
            lambda: f"{self.texts(deeper)}.join({self.text(deeper)})",
            lambda: f"string({self.of(self.random.choice(('number', 'flag')), deeper)})",
            lambda: f"({self.flag(deeper)} ? {self.text(deeper)} : {self.text(deeper)})",
            lambda: f"'%s-%d'.format([{self.text(deeper)}, {self.number(deeper)}])",
        )

    def numbers(self, depth):
        return self._list("number", depth)

    def texts(self, depth):
        return self._list("text", depth)

    def _list(self, kind, depth):
        if depth <= 0:
            return f"[{', '.join(self.of(kind, 0) for _ in range(self.random.randint(1, 3)))}]"
        deeper = depth - 1

        def macro():
            group = self._list(kind, deeper)
            filtering = self.random.random() < 0.5
            inner = self.within(kind, lambda v: f"{v}, {self.of('flag' if filtering else kind, deeper)}")
            return f"{group}.{'filter' if filtering else 'map'}({inner})"

        return self.choose(
            lambda: f"({self._list(kind, deeper)} + {self._list(kind, deeper)})",
            lambda: f"({self.flag(deeper)} ? {self._list(kind, deeper)} : {self._list(kind, deeper)})",
            lambda: f"{self.text(deeper)}.split({self.text(deeper)})" if kind == "text" else "oldSelf.sizes",
            lambda: f"[{', '.join(self.of(kind, deeper) for _ in range(self.random.randint(1, 3)))}]",
            macro,
        )
