"""Which pods `berth explain` is about: those that are named, a workload's, or all that a selector matches.

What was typed becomes a `Chosen`. A workload's pods, and those of a selector, are looked up at the API server of the
kubeconfig in use: by the workload's own selector, and of these only the pods that it owns, a Deployment's through its
ReplicaSets.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from berth.api.near_names import nearest
from berth.api.resources import RESOURCES, Resource
from berth.api.typed_names import object_named, whole_named

if TYPE_CHECKING:
    from berth.kube.credentials.sources import ClusterAccess
    from berth.kube.http.client import HttpTransport

Json = dict[str, Any]

PAGE = 500
REFUSES = "the API server refuses more:"
Refused = Callable[[str, str], str]
"""Says why the API server refuses the pods that a workload (kind, `namespace/name`) lacks; empty where it does not."""


class _Lacking(NamedTuple):
    """A workload that has fewer pods than it asks for."""

    kind: str
    key: str
    pods: int
    wanted: int
    why: str
    """What its condition says of it; empty where it has none."""


class ChosenPod(NamedTuple):
    """A pod to tell about."""

    namespace: str
    name: str
    manifest: Json | None = None
    """The pod as the API server has it, where it was looked up there."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def node(self) -> str:
        """The node that the API server has it on; empty where that is none, or not known."""
        return str(((self.manifest or {}).get("spec") or {}).get("nodeName") or "")


class Chosen(NamedTuple):
    """What was typed."""

    names: tuple[ChosenPod, ...] = ()
    workloads: tuple[tuple[Resource, str, str], ...] = ()
    """Kind, namespace and name."""
    selector: str = ""
    namespace: str = ""
    """Where the selector looks; empty for everywhere."""

    @property
    def is_anything(self) -> bool:
        """Whether pods were chosen at all."""
        return bool(self.names or self.workloads or self.selector)

    @property
    def asks_the_cluster(self) -> bool:
        """Whether the API server has to be asked which pods these are."""
        return bool(self.workloads or self.selector)

    def pods(
        self, access: "ClusterAccess", missing: list[str] | None = None, refused: Refused = lambda _kind, _key: ""
    ) -> list[ChosenPod]:
        """Return the pods: those that were named, then those without a node, by name. Raises `ClickException`.

        To `missing` a sentence is added for each workload of which the API server refuses pods: as a condition of the
        workload says, or where it has none (a StatefulSet and a Job never do), `refused`.
        """
        from berth.api.errors import TransportError

        lacking: list[_Lacking] = []
        try:
            found = asyncio.run(_looked_up(access, self, lacking))
        except TransportError as error:
            raise click.ClickException(f"the pods cannot be looked up in the cluster: {error}") from None
        for each in lacking:
            if missing is not None and (why := each.why or refused(each.kind, each.key)):
                missing.append(f"{each.kind} {each.key} has {each.pods} of its {each.wanted} pods: {REFUSES} {why}")
        by_key = {pod.key: pod for pod in sorted(found, key=lambda pod: (bool(pod.node), pod.key))}
        return list({pod.key: by_key.pop(pod.key, pod) for pod in self.names}.values()) + list(by_key.values())


def chosen_by(names: Iterable[str], namespace: str, selector: str = "", *, everywhere: bool = False) -> Chosen:
    """Return what is chosen by NAME, NAMESPACE/NAME, pod/NAME and KIND/NAME, or by a selector."""
    pods: list[ChosenPod] = []
    workloads = []
    for typed in names:
        if (whole := whole_named(typed, namespace)) is not None:
            raise click.UsageError(f"{typed}: berth-workbench explains a {whole.kind}, and is not installed")
        resource, of, name = object_named(typed, namespace)
        if resource == RESOURCES["Pod"]:
            pods.append(ChosenPod(of, name))
        else:
            workloads.append((resource, of, name))
    return Chosen(tuple(pods), tuple(workloads), selector, "" if everywhere else namespace or "default")


async def _looked_up(access: "ClusterAccess", chosen: Chosen, lacking: list[_Lacking]) -> list[ChosenPod]:
    from berth.kube.http.client import HttpTransport

    transport = HttpTransport(access)
    try:
        found = []
        if chosen.selector:
            found += await _listed(transport, RESOURCES["Pod"], chosen.namespace, chosen.selector)
        for resource, namespace, name in chosen.workloads:
            found += await _of_workload(transport, resource, namespace, name, lacking)
        return [_chosen(manifest) for manifest in found]
    finally:
        await transport.close()


def _chosen(manifest: Json) -> ChosenPod:
    metadata = manifest["metadata"]
    return ChosenPod(metadata.get("namespace", ""), metadata["name"], manifest)


async def _of_workload(
    transport: "HttpTransport", resource: Resource, namespace: str, name: str, lacking: list[_Lacking]
) -> list[Json]:
    from berth.api.errors import ApiError

    try:
        workload = msgspec.json.decode(await transport.get(resource, namespace, name))
    except ApiError as error:
        if not error.is_not_found:
            raise
        there = [each["metadata"]["name"] for each in await _listed(transport, resource, namespace)]
        hint = nearest(name, there) or _few(resource, there, namespace)
        raise click.ClickException(f"there is no {resource.kind} {namespace}/{name}{hint}") from None
    selector = label_selector((workload.get("spec") or {}).get("selector") or {})
    if not selector:
        raise click.ClickException(f"{resource.kind} {namespace}/{name} has no selector, so it has no pods")
    owners = {workload["metadata"].get("uid")}
    if resource.kind == "Deployment":
        sets = await _listed(transport, RESOURCES["ReplicaSet"], namespace, selector)
        owners = {each["metadata"].get("uid") for each in sets if _controller(each) in owners}
    pods = await _listed(transport, RESOURCES["Pod"], namespace, selector)
    pods = [pod for pod in pods if _controller(pod) in owners]
    spec, why = workload.get("spec") or {}, _refusal(workload)
    wanted = spec.get("replicas", 1)
    if resource.kind == "Job":
        wanted, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is not None:
            wanted = min(wanted, completions - (workload.get("status") or {}).get("succeeded", 0))
    active = sum((pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") for pod in pods)
    if why or (active < wanted and resource.kind != "DaemonSet"):
        lacking.append(_Lacking(resource.kind, f"{namespace}/{name}", active, wanted, why))
    return pods


def _refusal(workload: Json) -> str:
    """Return what the API server says to the controller that makes the pods, where it refuses them."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    found = (each for each in conditions if each.get("type") == "ReplicaFailure" and each.get("status") == "True")
    return next((str(each.get("message") or each.get("reason")) for each in found), "")


def _few(resource: Resource, names: list[str], namespace: str) -> str:
    if not names:
        return f"; there is no {resource.kind} in namespace {namespace}, -n names another"
    return f"; there are {', '.join(names[:5])}{' …' if len(names) > 5 else ''}"


def _controller(manifest: Json) -> str | None:
    """Return the uid of what owns an object as its controller."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((each.get("uid") for each in owners if each.get("controller")), None)


async def _listed(transport: "HttpTransport", resource: Resource, namespace: str, selector: str = "") -> list[Json]:
    """Return all objects, page by page."""
    found: list[Json] = []
    more = ""
    while True:
        body = await transport.list(
            resource, namespace=namespace, label_selector=selector, limit=PAGE, continue_token=more
        )
        page = msgspec.json.decode(body)
        found += page.get("items") or ()
        more = (page.get("metadata") or {}).get("continue") or ""
        if not more:
            return found


def label_selector(selector: Mapping[str, Any]) -> str:
    """Return a LabelSelector as the API server takes it in a query, and `kubectl -l`."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, operator, values = each["key"], each["operator"], ",".join(each.get("values") or ())
        if operator in ("In", "NotIn"):
            parts.append(f"{key} {operator.lower()} ({values})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts)
