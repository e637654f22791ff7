"""What is typed into the parts of a question's sentence: the inputs of each field, and how they are read.

Most fields are made of the request's annotations. Those that need the cluster or the configuration, or that several
inputs make, stand in `OWN`. What was typed is texts by name, as they are in the page's address.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args, get_origin

from berth.api.pools import pool_of
from berth.config.document import parse_document
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.loads import ClusterLoad
from berth_workbench.comparison.objectives import PARTED, WHOLE
from berth_workbench.planning.node_groups import NodeGroupSpec, read_groups
from berth_workbench.planning.scenario import typed_steps
from berth_workbench.questions.autoscale import GROUPS_EXAMPLE
from berth_workbench.questions.capacity import SHAPE, shapes_in_words
from berth_workbench.questions.question import Question, RequestField
from berth_workbench.questions.sentence import CHANGES, changes_in_words, value_in_words
from berth_workbench.questions.typed import choices_of, flags_of, is_number, text_of, value_of
from berth_workbench.showing.words import listed
from berth_workbench.simulation.steps import Manifests, Step
from berth_workbench.snapshot.documents import Document, parse_manifests
from berth_workbench.snapshot.snapshot import Snapshot

Values = Mapping[str, str]
Input = dict[str, Any]
MANIFEST = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web, resources: {requests: {cpu: 500m, memory: 1Gi}}}
"""
CONFIGURATION = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated}
"""


class OwnPart(NamedTuple):
    """A field that is not read by its annotations alone."""

    inputs: Sequence[Input]
    read: Callable[[Values, Snapshot, ConfigurationSource], Any]
    """Makes the value. Raises ValueError, `UserError`."""
    words: Callable[[Values], str]


def document(name: str, label: str, example: str, value: str = "") -> Input:
    """An input for a document, which can be dropped or begin with an example."""
    return {"name": name, "kind": "document", "label": label, "example": example, "value": value}


def shape_of(values: Values) -> tuple[Document, ...]:
    """Return what is to fit: the manifests, or a pod that requests what was typed. Raises ValueError."""
    if typed := values.get("manifests", "").strip():
        return tuple(parse_manifests(typed.encode(), "manifests"))
    requests = {name: values.get(name, "").strip() for name in ("cpu", "memory")}
    for part in values.get("others", "").split(","):
        name, equals, amount = (each.strip() for each in part.partition("="))
        if name and not (equals and amount):
            raise ValueError(f"other resources: NAME=AMOUNT is expected, not {part.strip()!r}")
        requests[name] = amount
    requests = {name: amount for name, amount in requests.items() if name and amount}
    if not requests:
        raise ValueError("what is to fit? type what a pod requests, or a manifest")
    limits = {name: amount for name, amount in requests.items() if "/" in name}  # extended resources are limited, too
    container = {"name": "c", "image": "any", "resources": {"requests": requests, "limits": limits}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": SHAPE}, "spec": {"containers": [container]}}
    return tuple(parse_manifests(json.dumps(pod).encode(), "the shape"))


def _shape_in_words(values: Values) -> str:
    try:
        return shapes_in_words(shape_of(values))
    except (ValueError, KeyError, TypeError):
        return "pods"


def _configuration(name: str) -> OwnPart:
    """A configuration as it is written; without any the one in use. Only plugins that are installed are loaded."""
    key = name.lower()

    def read(values: Values, _snapshot: Snapshot, own: ConfigurationSource) -> ConfigurationSource:
        if not (text := values.get(key, "").strip()):
            return own
        document = parse_document(text.encode(), f"configuration {name}")
        found = ConfigurationSource.of_document(name, document, own.plugins)
        found.load()
        return found

    def words(values: Values) -> str:
        text = values.get(key, "").strip()
        example = "an example that packs nodes" if text == CONFIGURATION.strip() else f"configuration {name}"
        return example if text else "the configuration in use"

    value = CONFIGURATION if key == "b" else ""
    told = f"Configuration {name}, a KubeSchedulerConfiguration; empty for the one in use"
    return OwnPart([document(key, told, CONFIGURATION, value)], read, words)


def _load(*, replaces_all: bool) -> OwnPart:
    """The pods that are placed: what is pending, or all that a controller owns."""
    options = [["", "what is pending"], ["true", "all pods that a controller owns, placed anew"]]

    def read(values: Values, snapshot: Snapshot, _own: ConfigurationSource) -> ClusterLoad:
        load = ClusterLoad.of(snapshot, replaces_all=values.get("all") == "true")
        if not load.pods:
            raise ValueError("no pod is pending here; choose all pods to be placed anew")
        return load

    value = "true" if replaces_all else ""
    made = {"name": "all", "kind": "choice", "label": "Which pods are placed", "options": options, "value": value}
    return OwnPart([made], read, lambda values: options[values.get("all") == "true"][1])


def _groups(values: Values, snapshot: Snapshot, _own: ConfigurationSource) -> list[NodeGroupSpec]:
    """Return the groups that were typed; without any, the pools of the cluster."""
    if typed := values.get("groups", "").strip():
        return read_groups(parse_document(typed.encode(), "groups"))
    labels = (each.manifest.get("metadata", {}).get("labels") or {} for each in snapshot.of("Node"))
    pools = sorted({pool for each in labels if (pool := pool_of(each))})
    if not pools:
        raise ValueError("no label of the nodes names their pools; type the node groups that the autoscaler has")
    return [NodeGroupSpec(pool) for pool in pools]


def _groups_in_words(values: Values) -> str:
    if not (typed := values.get("groups", "").strip()):
        return "that the pools are"
    try:
        return listed([each.name for each in read_groups(parse_document(typed.encode(), "groups"))], shown=4)
    except ValueError:
        return "as typed"


def _base(_values: Values, _snapshot: Snapshot, own: ConfigurationSource) -> ConfigurationSource:
    return own


def _objectives(values: Values, *_: Any) -> tuple[str, ...]:
    return tuple(values.get("objectives", "").split())


_MEASURES = f"{', '.join(WHOLE)}, {', '.join(f'{name}.cpu' for name in list(PARTED)[:2])} and so on"
OWN: Final[Mapping[str, Mapping[str, OwnPart]]] = MappingProxyType(
    {
        "capacity": {
            "documents": OwnPart(
                [
                    {"name": "cpu", "kind": "text", "label": "CPU of a pod", "value": "1", "hint": "1 or 500m"},
                    {"name": "memory", "kind": "text", "label": "Memory of a pod", "value": "2Gi", "hint": "2Gi"},
                    {"name": "others", "kind": "text", "label": "Other resources", "value": "",
                     "hint": "nvidia.com/gpu=1, one after the other, with commas"},
                    document("manifests", "Or the manifest of a pod or of workloads", MANIFEST),
                ],
                lambda values, *_: shape_of(values),
                _shape_in_words,
            )
        },
        "autoscale": {
            "groups": OwnPart([document("groups", "The autoscaler's node groups; empty for the pools", GROUPS_EXAMPLE)],
                              _groups, _groups_in_words)
        },
        "compare": {"a": _configuration("A"), "b": _configuration("B"), "load": _load(replaces_all=False)},
        "tune": {
            "objectives": OwnPart(
                [{"name": "objectives", "kind": "text", "label": f"At most two measures: {_MEASURES}",
                  "value": "packing.cpu fragmentation.cpu"}],
                _objectives, lambda values: listed(values.get("objectives", "").split()) or "nothing yet",
            ),
            "base": OwnPart([], _base, lambda _values: "the configuration in use"),
            "load": _load(replaces_all=True),
        },
    }
)  # fmt: skip
"""By question and field."""
USUAL: Final[Mapping[tuple[str, str], Any]] = MappingProxyType(
    {("capacity", "at_most"): 100_000, ("tune", "budget"): 60, ("rebalance", "goal"): "empty-nodes"}
)
"""What a field holds on the page where that is not its request's default: less where people wait for the answer."""


class Form:
    """The inputs of one question."""

    __slots__ = ("_fields", "_own", "question")

    def __init__(self, question: Question[Any, Any]) -> None:
        self.question = question
        self._own = OWN.get(question.name, {})
        self._fields = {
            each.name: each._replace(default=USUAL.get((question.name, each.name), each.default))
            for each in question.said()
            if each.name in self._own or (each.ask.help and each.ask.on_page)
        }

    def inputs(self, name: str) -> list[Input]:
        """Return the inputs of a part, with what they hold where nothing was typed."""
        if name == CHANGES:
            changes = {
                "name": CHANGES,
                "kind": "changes",
                "label": "Changes of the cluster, in this order",
                "value": "",
            }
            applied = document("manifests", "Manifests that are applied after them", MANIFEST)
            return [changes, *([applied] if self.question.manifests == "applied" else [])]
        if name in self._own:
            return [dict(each) for each in self._own[name].inputs]
        return [_input(self._fields[name])] if name in self._fields else []

    def names(self) -> Iterator[str]:
        """Yield the fields, and `changes`."""
        yield from self._fields
        if self.question.takes_changes:
            yield CHANGES

    def usual(self) -> dict[str, str]:
        """Return what all inputs hold where nothing was typed."""
        return {each["name"]: each["value"] for name in self.names() for each in self.inputs(name)}

    def words(self, name: str, values: Values) -> str:
        """Return what the sentence says of a part; what cannot be read is said as it was typed."""
        if name == CHANGES:
            try:
                steps = self.steps(values)
            except ValueError:
                return "changes that cannot be read"
            return changes_in_words(steps, is_supposed=self.question.supposes)
        if name in self._own:
            return self._own[name].words(values)
        field = self._fields[name]
        try:
            return value_in_words(field, value_of(field, values.get(name, "")))
        except ValueError:
            return values.get(name, "")

    def request(self, values: Values, snapshot: Snapshot, configuration: ConfigurationSource) -> Any:
        """Make the request of what was typed. Raises ValueError, `UserError`."""
        read = {}
        for name, field in self._fields.items():
            if name in self._own:
                read[name] = self._own[name].read(values, snapshot, configuration)
            else:
                read[name] = value_of(field, values.get(name, ""))
        return self.question.request(**read)

    def steps(self, values: Values) -> tuple[Step, ...]:
        """Return the changes that were typed, and the manifests that are applied after them. Raises ValueError."""
        if not self.question.takes_changes:
            return ()
        steps: list[Step] = typed_steps(values.get(CHANGES, ""))
        if self.question.manifests == "applied" and (typed := values.get("manifests", "").strip()):
            steps.append(Manifests(list(parse_manifests(typed.encode(), "manifests")), "apply the manifests"))
        return tuple(steps)

    def command(self, values: Values) -> str:
        """Return the command that asks the same; of a document, the name of a file that would have it."""
        words = ["berth", *self.question.group.split(), self.question.name]
        if self.question.name == "compare":
            words += [f"{name}.yaml" if values.get(name, "").strip() else "default" for name in "ab"]
        elif self.question.manifests and (values.get("manifests", "").strip() or self.question.manifests == "asked"):
            words += ["-f", "manifests.yaml"]
        for field in self.question.said():
            if field.name in self._fields and (field.name not in self._own or field.ask.help):
                words += flags_of(field, values.get(field.name, "") or ("-" if field.name == "groups" else ""))
        for line in values.get(CHANGES, "").splitlines():
            step, _, what = line.strip().removeprefix("--").partition(" ")
            words += [f"--{step}", what.strip()] if step and step[0] != "#" else []
        return shlex.join(words)


def _input(field: RequestField) -> Input:
    """Return the input of a field that its annotations describe."""
    said = field.said
    assert said is not None
    words = said.words if isinstance(said.words, Mapping) else {}
    made: Input = {"name": field.name, "label": field.ask.help.rstrip("."), "value": text_of(field.default)}
    if field.type is bool:
        return made | {"kind": "choice", "options": [["", said.without], ["true", said.says]]}
    if get_origin(field.type) is tuple:
        options = get_args(get_args(field.type)[0])
        if options:
            return made | {"kind": "choices", "options": [[each, words.get(each, each)] for each in options]}
        return made | {"kind": "names", "picks": said.picks, "hint": "a name"}
    choices = choices_of(field)
    if choices:
        offered = [each for each in choices if each != "free-shape"]  # takes manifests, which capacity asks about
        return made | {"kind": "choice", "options": [[each, words.get(each, each)] for each in offered]}
    if field.ask.reads is not None:
        return made | {"kind": "document", "example": said.example}
    if is_number(field):
        unit = field.ask.metavar.lower() if field.ask.metavar in ("DAYS", "SECONDS", "PERCENT") else ""
        return made | {"kind": "number", "least": field.ask.least, "most": field.ask.most, "unit": unit}
    return made | {"kind": "text"}
