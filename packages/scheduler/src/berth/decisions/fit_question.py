"""The question whether a manifest fits: a pod or a workload, as JSON or YAML, read and checked.

It has not been through an API server, so the defaults that one would fill in are filled in here
(`berth.api.pod_defaults`), and whatever says where the pod already runs is left out: the question is about one more
such pod.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec
import yaml

from berth.api.codec import ObjectError, decode
from berth.api.pod import Pod, PodStatus
from berth.api.pod_defaults import BUILT_IN_PRIORITIES, completed_pod_spec
from berth.api.strict import mistakes_in, repetitions_in, told
from berth.api.untrusted import UNREADABLE, problem_of, read_deep, shortened
from berth.api.user_error import UserError
from berth.api.yaml_census import STRICT_PARSER, UnreasonableYAML, refuse_bombs, yaml_problem

Json = dict[str, Any]

TEMPLATES: Final[Mapping[str, str]] = {
    "Deployment": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "StatefulSet": "spec.template",
    "DaemonSet": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate.spec.template",
    "PodTemplate": "template",
}
"""Where the manifests of workloads have their pod template."""
MAX_VALUES = 50_000
"""How many values a document may have once its aliases are expanded; far more than any pod has."""

_AT = re.compile(r" - at `\$\.?([^`]*)`")
_LEADING = re.compile(r"((?:metadata|spec|status)\.[A-Za-z0-9.\[\]/-]+): ")


class FitManifestError(UserError, ValueError):
    """A manifest that cannot be asked about; `field` is the path of what is wrong, empty if it is the whole."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field


class FitQuestion(msgspec.Struct, frozen=True):
    """The question: does this pod fit and, for a workload, how many like it."""

    kind: str
    name: str
    """`namespace/name` of the object."""
    pod: Pod
    replicas: int | None = None
    """How many pods the workload makes; None for a pod, and if that depends on the nodes."""
    notes: tuple[str, ...] = ()
    """What the answer leaves out of the manifest, in sentences."""


def read_question(manifest: bytes | str | Mapping[str, Any], namespace: str = "default") -> FitQuestion:
    """Return the question of a manifest; `namespace` is for a manifest that names none. Raises `FitManifestError`."""
    document = manifest if isinstance(manifest, Mapping) else _parsed(manifest)
    kind = document.get("kind")
    if not isinstance(kind, str) or (kind != "Pod" and kind not in TEMPLATES):
        said = f"{shortened(kind, 60)!r} makes no pods" if isinstance(kind, str) else "is missing"
        raise FitManifestError(f"{said}; asked about can be Pod, {', '.join(TEMPLATES)}", "kind")
    metadata = _object(document, "metadata")
    given = metadata.get("namespace") or namespace
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-") or kind.lower()
    for field, value in (("name", name), ("namespace", given)):
        if not isinstance(value, str):
            raise FitManifestError("a text is expected", f"metadata.{field}")
    path = TEMPLATES.get(kind, "")
    template = _object(document, path) if path else document
    pod = _pod(kind, name, given, template, f"{path}." if path else "")
    if mistakes := mistakes_in(kind, str(document.get("apiVersion") or ""), document, demands_all=False):
        first, *others = mistakes
        more = f"; {told(others)}" if others else ""
        raise FitManifestError(f"{'unknown field' if first.is_unknown else ''}{first.problem}{more}", first.field)
    return FitQuestion(kind, f"{given}/{name}", pod, _replicas(kind, document), tuple(_notes(kind, document, pod)))


# -- reading -----------------------------------------------------------------------------------------------------------


def _parsed(text: bytes | str) -> Mapping[str, Any]:
    content = text.encode() if isinstance(text, str) else text
    if content.lstrip()[:1] == b"{":
        try:
            found = _whole(read_deep(msgspec.json.decode, content))
        except UNREADABLE as json_error:  # YAML may begin with a brace, too
            try:
                return _whole(_yaml(content))
            except FitManifestError:
                raise FitManifestError(f"not readable as JSON: {problem_of(json_error)}") from None
        for mistake in repetitions_in(content):
            raise FitManifestError(mistake.problem, mistake.field)
        return found
    return _whole(_yaml(content))


def _yaml(content: bytes) -> Any:
    try:
        refuse_bombs(content, max_nodes=MAX_VALUES)
        documents = [each for each in yaml.load_all(content, Loader=STRICT_PARSER) if each is not None]
    except (yaml.YAMLError, UnreasonableYAML, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FitManifestError(f"not readable as YAML: {yaml_problem(error)}") from None
    if len(documents) != 1:
        raise FitManifestError(f"one object is expected, not {len(documents)} documents")
    return documents[0]


def _whole(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FitManifestError("an object with kind, metadata and spec is expected")
    return value


def _object(document: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return the object at a path; a missing one counts as empty, unless it is a template."""
    found: Any = document
    steps = path.split(".")
    for number, step in enumerate(steps):
        found = found.get(step)
        if found is None and path == "metadata":
            return {}
        if not isinstance(found, Mapping):
            said = "is missing" if found is None else "an object is expected"
            raise FitManifestError(said, ".".join(steps[: number + 1]))
    return found  # type: ignore[no-any-return]  # a mapping, as was seen just now


def _pod(kind: str, name: str, namespace: str, template: Mapping[str, Any], prefix: str) -> Pod:
    spec, metadata = template.get("spec"), template.get("metadata") or {}
    if not isinstance(spec, Mapping):
        raise FitManifestError("is missing" if spec is None else "an object is expected", f"{prefix}spec")
    if not isinstance(metadata, Mapping):
        raise FitManifestError("an object is expected", f"{prefix}metadata")
    if not spec.get("containers"):
        raise FitManifestError("at least one container is expected", f"{prefix}spec.containers")
    # No object of the cluster has this uid, so the pod is never taken for an existing one.
    uid = f"fit/{namespace}/{name}"
    own = {**metadata, "name": name, "namespace": namespace, "uid": uid, "deletionTimestamp": None}
    if kind == "Deployment" and isinstance(metadata.get("labels"), Mapping):
        # Its controller would put a hash here. Constraints that match by it distinguish the new pods from the old ones.
        own["labels"] = {"pod-template-hash": "fit", **metadata["labels"]}
    try:
        found: Pod = decode("Pod", {"kind": "Pod", "metadata": own, "spec": completed_pod_spec(spec)})
    except ObjectError as error:
        _refuse(error.reason, prefix)
    priority = found.spec.priority
    if priority is None:
        priority = BUILT_IN_PRIORITIES.get(found.spec.priority_class_name, 0)
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, node_name="", priority=priority), status=PodStatus()
    )


def _refuse(reason: str, prefix: str) -> NoReturn:
    """Raise a decoder's error, with the path in the manifest as its field."""
    if (found := _AT.search(reason)) is not None:
        raise FitManifestError(reason[: found.start()] + reason[found.end() :], f"{prefix}{found[1]}")
    if (found := _LEADING.match(reason)) is not None:
        raise FitManifestError(reason[found.end() :], f"{prefix}{found[1]}")
    raise FitManifestError(reason, prefix.rstrip("."))


def _replicas(kind: str, document: Mapping[str, Any]) -> int | None:
    if kind in ("Pod", "PodTemplate", "DaemonSet"):
        return None
    if kind not in ("Job", "CronJob"):
        return _number(_object(document, "spec"), "replicas", "spec")
    path = TEMPLATES[kind].removesuffix(".template")
    spec = _object(document, path)
    at_once, wanted = _number(spec, "parallelism", path), spec.get("completions")
    return at_once if wanted is None else min(at_once, _number(spec, "completions", path))


def _number(spec: Mapping[str, Any], field: str, path: str) -> int:
    found = spec.get(field)
    if found is None:
        return 1
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**31:
        raise FitManifestError("a number that is not negative is expected", f"{path}.{field}")
    return found


def _notes(kind: str, document: Mapping[str, Any], pod: Pod) -> list[str]:
    """Yield what the answer leaves out of the manifest."""
    notes = []
    if kind == "DaemonSet":
        notes.append("a DaemonSet has a pod on each node that it may run on; asked was about one pod of its template")
    if kind == "StatefulSet" and _object(document, "spec").get("volumeClaimTemplates"):
        notes.append("the claims of volumeClaimTemplates are not there yet, and were left out")
    name = pod.spec.priority_class_name
    if name and name not in BUILT_IN_PRIORITIES and not pod.spec.priority:
        notes.append(f"the priority class {shortened(name, 60)} was not looked up: the pod's priority counts as 0")
    if pod.spec.scheduling_gates:
        notes.append("the pod's scheduling gates were left out; it is not tried before they are gone")
    return notes
