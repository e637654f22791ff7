"""The arguments of a tool: one struct for each question, of which its schema is made and by which calls are read.

The struct has the fields of the request by their names, with the help and the limits of their `HowAsked`. A field
that the command fills in a way of its own is taken by its type (`GIVEN`): manifests, configurations, a workload. Fields
of other types, and those that name files or addresses of the machine, keep their defaults. Beside them stand what is
true of all questions: changes, manifests, namespace, seed, and how long the answer may take.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta

from berth.api.near_names import nearest
from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad, Load
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.state import StateAsked
from berth_workbench.planning.scenario import CHANGES_HINT, typed_steps
from berth_workbench.planning.usage import Usage, of_document
from berth_workbench.questions.question import Question
from berth_workbench.showing.ask import HowAsked
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.snapshot.documents import Document, parse_manifests
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.trace import TimedWorkload

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MOST_SECONDS = 3600.0
NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
MANIFESTS: Final = frozenset({tuple[Document, ...], tuple[Document, ...] | None})
ManifestsGiven = str | list[dict[str, Any]]
FLAG: Final = re.compile(r"(?:manifests of )?(?<![\w-])(-f|--[a-z][a-z-]*)")
MANIFESTS_HINT = "Pods, workloads and what goes with them: YAML or JSON as text, or a list of objects."


class LoadGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pods are placed: those of the cluster that are pending, and more."""

    manifests: Annotated[ManifestsGiven, Meta(description=MANIFESTS_HINT)] = ""
    replace_all: Annotated[bool, Meta(description="Place all running pods anew that a controller owns.")] = False


_IN_LOAD: Final = LoadGiven.__struct_fields__


class WorkloadGiven(DailyPattern, frozen=True, forbid_unknown_fields=True):
    """A daily pattern, as `berth trace generate` draws it from the flags of these names."""


class Given(NamedTuple):
    """How a field of a type that only programs give is taken."""

    wire: Any
    """The type of its argument."""
    help: str
    read: Callable[[str, Any, StateAsked], Any]
    """Makes the field's value of the name of the argument, what was given, and the cluster that is asked about."""
    default: Any = msgspec.NODEFAULT
    """What is taken where nothing is given; without one, a field that has to be given is an argument that has to be."""


def _documents(name: str, given: ManifestsGiven, namespace: str = "default") -> list[Document]:
    content = given.encode() if isinstance(given, str) else b"\n".join(map(msgspec.json.encode, given))
    return list(parse_manifests(content, name, namespace)) if content.strip() else []


def _manifests(name: str, given: ManifestsGiven | None, _state: StateAsked) -> tuple[Document, ...] | None:
    return None if given is None else tuple(_documents(name, given))


def _configuration(name: str, given: str | dict[str, Any], state: StateAsked) -> ConfigurationSource:
    own = state.decides.configuration
    if given == "current":
        return own
    if given == DEFAULT:
        return ConfigurationSource(DEFAULT)
    found = ConfigurationSource.of_document(name, given, own.plugins)
    found.load()
    return found


def _load(name: str, given: LoadGiven, state: StateAsked) -> Load:
    documents = _documents(f"{name}.manifests", given.manifests)
    load = ClusterLoad.of(state.snapshot, documents, replaces_all=given.replace_all)
    if not load.pods:
        why = f"all of the manifests are {next(iter(load.refused))}" if load.refused else "none is pending or given"
        hint = "replace_all places the running ones anew"
        raise CallRefused("argument", f"{name}: there are no pods to place: {why}; {hint}")
    return load


def _usage(name: str, given: dict[str, Any] | None, state: StateAsked) -> Usage:
    usage: Usage = {}
    if given is not None:
        of_document(given, usage, name)
    elif state.usage is not None:
        usage = state.usage()
    else:
        raise CallRefused("argument", f"{name}: a cluster in a file has no metrics; give what its pods use")
    return usage


GIVEN: Final[Mapping[Any, Given]] = MappingProxyType(
    {
        tuple[Document, ...]: Given(ManifestsGiven, MANIFESTS_HINT, _manifests),
        tuple[Document, ...] | None: Given(ManifestsGiven | None, MANIFESTS_HINT, _manifests),
        ConfigurationSource: Given(
            Literal["default", "current"] | dict[str, Any],
            "A KubeSchedulerConfiguration as an object; `default`, or `current` for the one that the cluster has.",
            _configuration,
            "current",
        ),
        Load: Given(LoadGiven, "Which pods are placed.", _load, LoadGiven()),
        Usage: Given(
            dict[str, Any] | None,
            "What pods or workloads use: an object from namespace/name to {cpu, memory}, or a PodMetricsList. Without "
            "it a live cluster's metrics.k8s.io is asked.",
            _usage,
            None,
        ),
        TimedWorkload: Given(
            WorkloadGiven,
            "The workload over time.",
            lambda _name, given, _state: daily_pattern(given),
        ),
        frozenset[str] | None: Given(
            tuple[str, ...] | None, "By name; all without.", lambda _name, given, _: given and frozenset(given), None
        ),
    }
)
"""Types of fields that no flag is made of."""


Arg = tuple[str, Any] | tuple[str, Any, Any]
"""The name of an argument, its type, and what it is where it is not given."""


class Arguments:
    """The arguments of a question's tool."""

    __slots__ = ("_question", "_readers", "_struct", "schema")

    def __init__(self, question: Question[Any, Any]) -> None:
        self._question = question
        self._readers: dict[str, Callable[[Any, StateAsked], Any]] = {}
        """By field of the request, what makes its value of the argument of its name."""
        fields = [*self._of_request(), *_of_all(question)]
        self._struct = msgspec.defstruct("Arguments", fields, kw_only=True, frozen=True, forbid_unknown_fields=True)
        made = msgspec.json.schema(self._struct, ref_template="#/$defs/{name}")
        self.schema: dict[str, Any] = {"$schema": DIALECT, **made["$defs"].pop("Arguments"), "$defs": made["$defs"]}
        """As JSON Schema."""
        for one in self.schema["properties"].values():
            one["description"] = self.in_words(one["description"])

    def in_words(self, help_text: str) -> str:
        """Return a command's help in the words of the tool: a flag by its argument.

        A sentence about a flag that no argument stands for is left out.
        """
        names = {f"--{name.replace('_', '-')}": name for name in (*self.schema["properties"], *_IN_LOAD)}
        names |= {"-f": "manifests"} | {each.flag: each.name for each in self._question.fields()}

        def told(paragraph: str) -> Iterator[str]:
            for sentence in re.split(r"(?<=\.)\s+", " ".join(paragraph.split())):
                if all(flag in names for flag in FLAG.findall(sentence)):
                    yield FLAG.sub(lambda flag: f"`{names[flag[1]]}`", sentence)

        return "\n\n".join(" ".join(told(each)) for each in help_text.strip().split("\n\n"))

    def checked(self, given: Mapping[str, Any]) -> Any:
        """Return what was given as a struct of the arguments. Raises `CallRefused` where the schema has it not so."""
        known = self._struct.__struct_fields__
        if unknown := sorted(given.keys() - set(known)):
            hint = nearest(unknown[0], known) or f"; there are {', '.join(known)}"
            raise CallRefused("argument", f"{shortened(unknown[0], 60)!r}: there is no such argument{hint}")
        try:  # by way of JSON, which has no numbers that are none
            return msgspec.json.decode(msgspec.json.encode(given), type=self._struct)
        except (msgspec.ValidationError, *UNREADABLE) as error:
            problem, _, where = problem_of(error).partition(" - at `$")
            raise CallRefused("argument", f"{where.strip('`').lstrip('.') or 'arguments'}: {problem}") from None

    def read(self, checked: Any, state: StateAsked) -> tuple[Situation, Any]:
        """Return what is asked about, and the request. Raises `CallRefused`, `UserError`.

        What the request finds wrong is raised as it is: `ValueError`, `ObjectError`, `ConfigError`.
        """
        question, of_request = self._question, self._question.request.__struct_fields__
        values = {name: read(getattr(checked, name), state) for name, read in self._readers.items()}
        namespace: str = getattr(checked, "namespace", "") or "default"
        steps: list[Step] = typed_steps("\n".join(getattr(checked, "changes", ())))
        if question.manifests:
            documents = _documents("manifests", checked.manifests, namespace)
            if question.manifests == "asked":
                values["documents"] = tuple(documents)
            elif documents:
                steps.append(Manifests(documents, "apply the manifests"))
        if "namespace" in of_request:
            values.setdefault("namespace", namespace)
        if "setup" in of_request:
            values["setup"] = state.decides.setup
        seed: int = getattr(checked, "seed", 0)
        situation = Situation(state.snapshot, state.decides.setup, tuple(steps), namespace, seed)
        return situation, question.request(**values)

    def _of_request(self) -> Iterator[Arg]:
        question = self._question
        asked = {each.name: each.ask for each in question.fields()}
        hints = get_type_hints(question.request)
        for field in msgspec.structs.fields(question.request):
            name, kind, ask = field.name, hints[field.name], asked.get(field.name)
            if ask is not None and not ask.is_of_machine:
                self._readers[name] = partial(_read, field.default, ask.reads)
                yield _of_flag(name, kind, field.default, ask)
            elif ask is None and kind in GIVEN and not (name == "documents" and question.manifests == "asked"):
                given = GIVEN[kind]
                self._readers[name] = partial(given.read, name)
                default = field.default if given.default is msgspec.NODEFAULT else given.default
                yield name, Annotated[given.wire, Meta(description=given.help)], default


def _read(default: Any, reads: Callable[[Any], Any] | None, given: Any, _state: StateAsked) -> Any:
    return given if reads is None else default if given is None else reads(given)


def _of_flag(name: str, kind: Any, default: Any, ask: HowAsked) -> Arg:
    if ask.reads is not None:
        kind = dict[str, Any] if default is msgspec.NODEFAULT else dict[str, Any] | None
        default = default if default is msgspec.NODEFAULT else None
    limits: dict[str, Any] = {key: one for key, one in (("ge", ask.least), ("le", ask.most)) if one is not None}
    if limits and int in (kind, *get_args(kind)):
        limited = Annotated[int, Meta(**{key: int(one) for key, one in limits.items()})]
        kind = limited if kind is int else limited | None
    elif limits:
        kind = Annotated[kind, Meta(**limits)]
    return name, Annotated[kind, Meta(description=ask.help)], default


def _of_all(question: Question[Any, Any]) -> Iterator[Arg]:
    """Yield what is true of many questions, as the command has it for each."""
    of_request = get_type_hints(question.request)
    if question.takes_changes:
        hint = CHANGES_HINT.replace("One a line", "One a text")
        yield "changes", Annotated[tuple[str, ...], Meta(description=hint)], ()
    if question.manifests:
        is_asked = question.manifests == "asked"
        what = "What is asked about" if is_asked else "Applied after the changes"
        wire = Annotated[ManifestsGiven, Meta(description=f"{what}. {MANIFESTS_HINT}")]
        yield "manifests", wire, msgspec.NODEFAULT if is_asked else ""
    is_of_request = any(field.name == "namespace" for field in question.fields())
    if not is_of_request and (question.takes_changes or not MANIFESTS.isdisjoint(of_request.values())):
        described = Meta(description="That of manifests and names which do not say.", pattern=NAMESPACE)
        yield "namespace", Annotated[str, described], "default"
    if not {"seed", "seeds"} & of_request.keys():
        yield "seed", Annotated[int, Meta(description="How ties between nodes are broken.")], 0
    within = Meta(description="After so many seconds, answer with what is known by then.", gt=0, le=MOST_SECONDS)
    yield "for_seconds", Annotated[float, within], MOST_SECONDS
