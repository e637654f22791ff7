"""A snapshot's queues in memory, and how Kueue is configured there.

Kueue's own configuration is a file that no snapshot has: `--kueue-config` names it, and without it Kueue's defaults
count. A time is needed, too: that at which the snapshot was taken, or the newest that an object names.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.user_error import UserError
from berth_kueue.jobs import QUEUE_LABEL, JobManifestError, KueueJob, jobs_of
from berth_kueue.lives import KINDS, Queues
from berth_kueue.model import seconds_of
from berth_kueue.resources import GROUP, VERSION
from berth_workbench.showing.ask import HowAsked
from berth_workbench.snapshot.snapshot import Snapshot

_WITH_SPEC = ("ClusterQueue", "LocalQueue", "Topology", "Workload")
_DEFAULT_QUEUE = "default"
_OF_KUEUE = frozenset(KINDS) - {"Namespace", "Node", "Pod"}


class NoQueuesError(UserError):
    """A cluster without Kueue's objects."""


class KueueSettings(msgspec.Struct, frozen=True):
    """What of Kueue's configuration decides: fair sharing with its strategies, and feature gates."""

    fair_sharing: tuple[str, ...] | None = None
    """The preemption strategies, empty for Kueue's own; None where fair sharing is off."""
    gates: Mapping[str, bool] = {}

    def config(self, now: str) -> dict[str, Any]:
        """The same as `Queues` takes it."""
        strategies = {
            "fairSharing": self.fair_sharing is not None,
            "preemptionStrategies": list(self.fair_sharing or ()),
        }
        return {"start": now, "featureGates": dict(self.gates), **(strategies if strategies["fairSharing"] else {})}


def read_settings(document: Any) -> KueueSettings:
    """Read a Configuration of `config.kueue.x-k8s.io`, or the ConfigMap that it is kept in. Raises ValueError."""
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        import yaml

        texts = [text for text in (document.get("data") or {}).values() if "config.kueue.x-k8s.io" in text]
        if len(texts) != 1:
            raise ValueError("the ConfigMap holds no Configuration of config.kueue.x-k8s.io")
        document = yaml.safe_load(texts[0])
    if not isinstance(document, Mapping) or document.get("kind") != "Configuration":
        raise ValueError("expected a Configuration of config.kueue.x-k8s.io")
    fair, gates = document.get("fairSharing"), document.get("featureGates") or {}
    if not isinstance(gates, Mapping) or not all(isinstance(each, bool) for each in gates.values()):
        raise ValueError("featureGates: must be true or false by name")
    is_on = isinstance(fair, Mapping) and fair.get("enable", True)
    strategies = tuple(fair.get("preemptionStrategies") or ()) if isinstance(fair, Mapping) else ()
    return KueueSettings(strategies if is_on else None, gates)


KueueConfig = Annotated[
    KueueSettings | None,
    HowAsked(
        "Kueue's Configuration, or the ConfigMap kueue-manager-config; without it, Kueue's defaults.",
        metavar="FILE",
        reads=read_settings,
    ),
]


class QueuedCluster:
    """The documents that Kueue decides by, by kind and key, and the queues that they make."""

    __slots__ = ("classes", "documents", "has_topologies", "now", "settings")

    def __init__(self, snapshot: Snapshot, settings: KueueSettings | None = None) -> None:
        """Read a snapshot's documents. Raises `NoQueuesError`, `ObjectError`."""
        self.settings = settings or KueueSettings()
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.classes: dict[str, int] = {}
        """The values of priority classes, as `jobs_of` takes them."""
        newest, served = "", set()
        self.has_topologies = any(each.api_version.startswith(f"{GROUP}/") for each in snapshot.of("Topology"))
        """Whether nodes and pods count for Kueue; where they do not, they are not even read."""
        kinds = KINDS if self.has_topologies else [each for each in KINDS if each not in ("Node", "Pod")]
        for document in snapshot.of(*kinds, "PriorityClass", "WorkloadPriorityClass"):
            group, _, version = document.api_version.rpartition("/")
            if document.kind in _OF_KUEUE and (group, version) != (GROUP, VERSION):
                served |= {version} if group == GROUP else set()
                continue
            manifest = document.manifest
            metadata = manifest.get("metadata") or {}
            newest = max(newest, str(metadata.get("creationTimestamp") or ""))
            if document.kind in ("PriorityClass", "WorkloadPriorityClass"):
                self._note_class(document.kind, metadata.get("name", ""), manifest)
            else:
                key = key_of(manifest)
                spec = manifest.get("spec")
                if document.kind in _WITH_SPEC and not isinstance(spec, Mapping):
                    raise ObjectError(document.kind, key, "spec is missing")
                if document.kind == "Workload" and not (spec or {}).get("podSets"):
                    raise ObjectError(document.kind, key, "spec.podSets is missing")
                self.documents[document.kind, key] = manifest
        if not any(kind == "ClusterQueue" for kind, _ in self.documents):
            other = f"; its objects are {GROUP}/{', '.join(sorted(served))}, and {VERSION} is read" if served else ""
            raise NoQueuesError(f"there are no ClusterQueues in this cluster ({GROUP}/{VERSION}){other}")
        taken = snapshot.header.taken if snapshot.header is not None else ""
        self.now = taken or newest or "1970-01-01T00:00:00Z"

    def _note_class(self, kind: str, name: str, manifest: Mapping[str, Any]) -> None:
        value = int(manifest.get("value") or 0)
        self.classes[f"kueue/{name}" if kind == "WorkloadPriorityClass" else name] = value
        if kind == "PriorityClass" and manifest.get("globalDefault"):
            self.classes[""] = value

    def queues(self) -> Queues:
        """The queues as they are. Raises `ObjectError`."""
        queues = Queues((), self.settings.config(self.now))
        for kind in KINDS:
            for key, document in self.of(kind).items():
                with _named(kind, key):
                    queues.put(document)
        with _named("cluster", "of these queues"):
            queues.settle()
        for key, workload in queues.workloads.items():
            if workload.holds_quota:
                # Whoever runs has come through its LocalQueue, and when it ends, those who wait there are tried again.
                queues.pending.line_of.setdefault(key, f"{workload.namespace}/{workload.spec.queue_name}")
        return queues

    def jobs(self, manifests: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[KueueJob]:
        """Yield the jobs of manifests as they would come a second after the snapshot was taken.

        One that names no queue goes to the LocalQueue `default`. Raises `JobManifestError`, also where there is none.
        """
        now = timestamp_of(seconds_of(self.now) + 1)
        for job in jobs_of(manifests, self.classes, namespace=namespace, now=now):
            if not job.queue:
                if ("LocalQueue", f"{job.namespace}/{_DEFAULT_QUEUE}") not in self.documents:
                    raise JobManifestError(f"{job.kind} {job.namespace}/{job.name}: the label {QUEUE_LABEL} is missing")
                for workload in job.workloads:
                    workload["spec"]["queueName"] = _DEFAULT_QUEUE
            yield job

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """The documents of a kind, by `namespace/name` or name."""
        return {key: document for (of_kind, key), document in self.documents.items() if of_kind == kind}

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read an answer about these queues."""
        notes = []
        if self.settings == KueueSettings():
            notes.append(
                "Kueue's default configuration is assumed, without fair sharing; --kueue-config names another."
            )
        with_checks = sorted(
            name
            for name, queue in self.of("ClusterQueue").items()
            for spec in [queue.get("spec") or {}]
            if spec.get("admissionChecks") or spec.get("admissionChecksStrategy")
        )
        if with_checks:
            notes.append(f"AdmissionChecks are not known here, and taken to be passed: {', '.join(with_checks)}.")
        return tuple(notes)


def quotas_of(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, dict[str, Any]]]:
    """Yield the quotas of a ClusterQueue or Cohort: the resources of their group, the flavor, and the quota itself."""
    with _named(str(document.get("kind")), key_of(document)):
        for group in document["spec"].get("resourceGroups") or ():
            for flavor in group.get("flavors") or ():
                for quota in flavor.get("resources") or ():
                    yield tuple(group.get("coveredResources") or ()), flavor["name"], quota


@contextmanager
def _named(kind: str, key: str) -> Iterator[None]:
    """Whatever is wrong with an object that no struct checks is told with its name. Raises `ObjectError`."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, AssertionError, msgspec.ValidationError) as error:
        raise ObjectError(kind, key, f"cannot be read: {type(error).__name__}: {error}") from None


def key_of(manifest: Mapping[str, Any]) -> str:
    """`namespace/name` of an object, or its name where it has no namespace."""
    metadata = manifest.get("metadata") or {}
    names = (metadata.get("namespace"), metadata.get("name"))
    if manifest.get("kind") in ("Workload", "LocalQueue", "Pod"):
        names = (names[0] or "default", names[1])
    return "/".join(str(name) for name in names if name)


def timestamp_of(seconds: float) -> str:
    """A time as the API writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def in_namespace(names: Iterable[str], namespace: str) -> list[str]:
    """Names as `namespace/name`, those without a namespace in this one."""
    return [name if "/" in name else f"{namespace}/{name}" for name in names]
