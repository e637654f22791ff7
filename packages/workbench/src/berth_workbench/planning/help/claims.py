"""Why a claim has no devices: what the allocator says of each of them, and what would help the pod that waits for it.

A cluster in memory and a claim's name go in (`explain_claim`), a `ClaimHelp` comes out, and `claim_lines` words it.
Only devices are spoken of: where else the pod may not go, `berth explain POD` says. What would help is looked for on
the whole pod, by the scheduler's own core.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from berth.api.dra import ResourceClaim
from berth.api.near_names import nearest
from berth.api.pod import Pod
from berth.api.user_error import UserError
from berth.framework.work_budget import DEFAULT_STEPS, WorkBudget
from berth.plugins.dra.refusals import ClaimReport, RefusedDevices, RequestReport
from berth_workbench.planning.free_devices import device_plugin
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.words import lines_of, names_in_words, wrapped
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.cluster import SimulatedCluster

STEPS = 10 * DEFAULT_STEPS
"""What it may take to look at all devices of a cluster, in steps of the scheduler's work: some seconds."""


class ClaimHelp(msgspec.Struct, frozen=True, rename="camel"):
    """What there is for a claim, and what would help."""

    claim: str
    """`namespace/name`."""
    report: ClaimReport
    pods: tuple[str, ...] = ()
    """Those that use it, as `namespace/name`."""
    help: Help | None = None
    """What would help the first of them that has no node."""


class NoSuchClaimError(UserError):
    """There is no such claim, or no plugin of the scheduler looks at claims."""


def explain_claim(cluster: SimulatedCluster, key: str) -> ClaimHelp:
    """Return what devices there are for a claim, by `namespace/name`; the help is left to the caller.

    Raises `NoSuchClaimError`.
    """
    claim = cluster.objects.get(("ResourceClaim", key))
    if not isinstance(claim, ResourceClaim):
        there = sorted(name for kind, name in cluster.objects if kind == "ResourceClaim")
        few = f"; there are {names_in_words(there)}" if there else "; it has none"
        raise NoSuchClaimError(f"there is no ResourceClaim {key} in the cluster{nearest(key, there) or few}")
    pods = [pod for pod in cluster.of(Pod) if is_active(pod) and key in claims_of(pod)]
    plugin = device_plugin(cluster)
    if plugin is None:
        raise NoSuchClaimError(
            "no profile of the scheduler has the plugin DynamicResources, so nothing looks at claims"
        )
    nodes = [cluster.core.cache.table.node(row) for row in cluster.core.cache.table.rows().tolist()]
    report = plugin.report(claim, nodes, WorkBudget(STEPS))
    waiting = sorted(pods, key=lambda pod: (bool(pod.spec.node_name), pod.key))
    return ClaimHelp(key, report, tuple(pod.key for pod in waiting))


def claims_of(pod: Pod) -> set[str]:
    """Return the claims that a pod uses, as `namespace/name`."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    names = (use.resource_claim_name or made.get(use.name) for use in pod.spec.resource_claims)
    return {f"{pod.metadata.namespace}/{name}" for name in names if name}


# --- in words ---------------------------------------------------------------------------------------------------------


def claim_lines(found: ClaimHelp, width: int = 80) -> Iterable[str]:
    """Yield the answer line by line."""
    for sentence in sentences(found.report):
        yield from wrapped(sentence, width, "", "  ")
    if not found.pods:
        yield from wrapped("No pod uses it.", width)
    if found.help is not None and found.help.state == "pending":
        yield ""
        yield from lines_of(found.help, width)


def sentences(report: ClaimReport) -> Iterator[str]:
    """Yield what there is for a claim: whether any node has it, then request by request."""
    if report.problem:
        yield f"No node: {report.problem}."
        return
    if report.allocated:
        yield f"It has {names_in_words(report.allocated)}."
        return
    if report.fits_on:
        count = len(report.fits_on)
        verdict = f"{_nodes(count)} {'has' if count == 1 else 'have'} the devices: {names_in_words(report.fits_on)}"
    elif not report.is_complete:
        verdict = f"None of the first {_nodes(report.nodes)}; to look at all takes too long"
    else:
        verdict = f"No node{_why_none(report)}"
    is_one = verdict == "No node" and len(report.requests) == 1
    if not is_one:
        yield f"{verdict}."
    for request in report.requests:
        whom = f"{verdict}: it" if is_one else f"Request {request.request}"
        yield f"{whom} asks for {_asked(request)} on one node; {_most(request)}."
        yield f"{_devices(request.devices)}: {_counted(request)}."


def _why_none(report: ClaimReport) -> str:
    if report.constraints_only:
        return ": the devices of no node satisfy the claim's constraints together"
    if report.requests and all(each.fits_on for each in report.requests):
        return " has devices for all of its requests at the same time, though for each by itself"
    return ""


def _asked(request: RequestReport) -> str:
    kind = request.device_class
    count = f"all devices of {kind}" if request.mode == "All" else f"{request.needed} {kind}"
    told = " and ".join(map(selector_in_words, request.selectors))
    return count + (f" with {told}" if told else "") + (", for administration," if request.admin_access else "")


_QUANTITY = re.compile(r"device\.capacity\[(['\"]).*?\1\]\.(\w+)\.compareTo\(quantity\((['\"])(.*?)\3\)\) ([<>=!]=?) 0")
_ATTRIBUTE = re.compile(r"device\.attributes\[(['\"]).*?\1\]\.(\w+)")


def selector_in_words(text: str) -> str:
    """Return a selector as people would write it, where it is of a usual form: `memory >= 80Gi`."""
    return _ATTRIBUTE.sub(r"\2", _QUANTITY.sub(r"\2 \5 \4", text))


def _most(request: RequestReport) -> str:
    if request.fits_on:
        return f"{_nodes(request.fits_on)} {'has' if request.fits_on == 1 else 'have'} so many"
    if not request.most:
        return "no node has one" if request.mode != "All" else "no node has all of those that match"
    return f"the most on one is {request.most} ({request.node})"


def _counted(request: RequestReport) -> str:
    told = [refused_in_words(each) for each in request.refused]
    return ", ".join([*told, f"{request.would_do} would do"])


def refused_in_words(refused: RefusedDevices) -> str:
    """Return which check refuses some devices, in a clause."""
    count, is_one = refused.devices, refused.devices == 1
    match refused.check:
        case "taken":
            return f"{count} {'is' if is_one else 'are'} taken"
        case "selector":
            return f"{count} {'fails' if is_one else 'fail'} {selector_in_words(refused.what)}"
        case "node":
            return f"{count} {'is' if is_one else 'are'} for other nodes"
        case "capacity":
            return f"{count} {'has' if is_one else 'have'} too little capacity left"
        case "counters":
            return f"{count} {'needs' if is_one else 'need'} more of the counters of {refused.what} than is left there"
        case "taint":
            return f"{count} {'is' if is_one else 'are'} tainted {refused.what}"
        case "constraint":
            return f"{count} {'lacks' if is_one else 'lack'} an attribute that the claim's constraints are about"
        case "partitions":
            return (
                f"{count} {'is a partition' if is_one else 'are partitions'}, which the scheduler's gates leave alone"
            )
        case "bindingConditions":
            return f"{count} {'has' if is_one else 'have'} binding conditions, which the scheduler's gates leave alone"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
