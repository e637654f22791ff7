"""Compiles expressions: the CEL project's library parses and checks them, and is told here of Kubernetes' functions.

Whoever evaluates expressions has an `Environment` that says which variables there are. The library (cel-expr-python) is
imported where the first text is compiled, since it takes memory. Deviations from upstream's compiler: quantities and
versions are of no declared type, so that a call with the wrong one fails when it is evaluated; an expression may be
nested 32 levels deep instead of 250; Kubernetes' functions for addresses, URLs, sets, lists and formats are not known.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from berth.api.untrusted import shortened
from berth.cel.program import CompileError, Program
from berth.cel.syntax import SyntaxNode, read_tree

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

MAX_MESSAGE = 1000
"""How much of what the compiler says is told."""


class Checked(NamedTuple):
    """What the compiler makes of a text: its syntax tree, and the type of its value (`bool`, `dyn` …)."""

    tree: SyntaxNode
    kind: str


class Environment:
    """Which variables expressions may use, and whether they may give names to values (`cel.bind`)."""

    __slots__ = ("_are_maps", "_has_bind", "_library", "_variables")

    def __init__(self, *variables: str, are_maps: bool = False, has_bind: bool = False) -> None:
        """The variables are maps of texts to anything, or the compiler is told nothing of their types."""
        self._variables = variables
        self._are_maps = are_maps
        self._has_bind = has_bind
        self._library: cel.Env | None = None

    def check(self, text: str) -> Checked:
        """Return what the compiler makes of a text. Raises `CompileError`."""
        if self._library is None:
            self._library = self._make()
        try:
            expression = self._library.compile(text)
        except RuntimeError as error:
            told = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
            raise CompileError(f"compilation failed: {shortened(told, MAX_MESSAGE)}") from None
        return Checked(read_tree(expression.serialize()), expression.return_type().name().lower())

    def program(self, tree: SyntaxNode) -> Program:
        """Return a syntax tree, ready to be evaluated. Raises `CompileError`."""
        return Program(tree, self._variables, types_are_known=self._are_maps)

    def _make(self) -> "cel.Env":
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # type: ignore[import-untyped]

        kind = cel.Type.Map(cel.Type.STRING, cel.Type.DYN) if self._are_maps else cel.Type.DYN
        kubernetes = cel.CelExtension("kubernetes", _declarations(cel))
        extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), kubernetes]
        extensions += [ext_bindings.ExtBindings()] if self._has_bind else []
        return cel.NewEnv(variables=dict.fromkeys(self._variables, kind), extensions=extensions)


def _declarations(cel: Any) -> list[Any]:
    dyn, text, flag, number, double = (getattr(cel.Type, kind) for kind in ("DYN", "STRING", "BOOL", "INT", "DOUBLE"))
    functions = {
        "quantity": (dyn, (text,)),
        "isQuantity": (flag, (text,)),
        "semver": (dyn, (text,), (text, flag)),
        "isSemver": (flag, (text,), (text, flag)),
        "sign": (number, (dyn,)),
    }
    methods = {
        "isGreaterThan": (flag, (dyn, dyn)),
        "isLessThan": (flag, (dyn, dyn)),
        "compareTo": (number, (dyn, dyn)),
        "asApproximateFloat": (double, (dyn,)),
        "asInteger": (number, (dyn,)),
        "isInteger": (flag, (dyn,)),
        "add": (dyn, (dyn, dyn)),
        "sub": (dyn, (dyn, dyn)),
        "major": (number, (dyn,)),
        "minor": (number, (dyn,)),
        "patch": (number, (dyn,)),
    }

    def declare(name: str, result: Any, *overloads: tuple[Any, ...], is_member: bool) -> Any:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", return_type=result, parameters=list(takes), is_member=is_member)
                for index, takes in enumerate(overloads)
            ],
        )

    return [
        *(declare(name, *said, is_member=False) for name, said in functions.items()),
        *(declare(name, *said, is_member=True) for name, said in methods.items()),
    ]
