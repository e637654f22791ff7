"""Carries a plan out, step by step, and looks at the cluster in between.

Before it begins, the plan is proven on the cluster as it is by then. After each eviction it waits until the pod in its
place runs, and on the node that the plan names. Then the cluster is read anew, and the steps that are left are proven
on it once more. Where the cluster no longer agrees with the plan, or somebody asks for it, nothing more is done; what
is done stays done, and is told.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

import msgspec

from berth.api.codec import decode
from berth.api.errors import ApiError
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.core.intake import FINISHED_PHASES
from berth.framework.setup import Setup
from berth.kube.transport import MERGE_PATCH, Transport
from berth_workbench.planning.rebalance.plan import PlanStep, RebalancePlan, in_groups
from berth_workbench.planning.rebalance.proof import disagreement
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot

POD, NODE = RESOURCES["Pod"], RESOURCES["Node"]
BUDGET_SAYS_NO = 429

Json = dict[str, Any]
Look = Callable[[], Awaitable[Snapshot]]
Say = Callable[[str], None]


class Patience(msgspec.Struct, frozen=True):
    """How long the cluster may take for one step, and how often it is asked, in seconds."""

    step_s: float = 600.0
    poll_s: float = 1.0


class Executed(msgspec.Struct, frozen=True, rename="camel"):
    """What was done of a plan."""

    done: int
    """How many steps, from the first on; cordons that are made together are one (`plan.in_groups`)."""
    steps: int
    stopped: str
    """Why not all of them; empty where all are done."""
    cordoned: tuple[str, ...]
    """The nodes that the plan has cordoned, and that are cordoned now."""


class Executor:
    """One plan on its way; `run` does it."""

    def __init__(
        self,
        plan: RebalancePlan,
        transport: Transport,
        look: Look,
        *,
        manifests: Mapping[str, Json] | None = None,
        setup: Setup | None = None,
        seed: int = 0,
        patience: Patience = Patience(),  # noqa: B008 - a frozen value
        watch: WorkWatch = UNWATCHED,
        say: Say = lambda _: None,
    ) -> None:
        """`look` reads the cluster; `manifests` has the pods that the plan creates, by `namespace/name`."""
        self._steps = plan.steps
        self._transport = transport
        self._look = look
        self._manifests = manifests or {}
        self._setup = setup
        self._seed = seed
        self._patience = patience
        self._watch, self._say = watch, say
        self._names: dict[str, str] = {}
        """The pods that are there now in place of those of the plan, as `namespace/name`."""
        self._cordoned: list[str] = []

    async def run(self) -> Executed:
        """Do the steps in order. Raises `TransportError` where the API server cannot be reached or refuses."""
        done, groups, left = 0, in_groups(self._steps), list(self._steps)
        try:
            await self._prove(left)
            for number, group in enumerate(groups, 1):
                if self._watch.is_stopped:
                    raise StoppedError("you asked for it")
                self._say(f"{number}/{len(groups)} {told(group)}")
                for step in group:
                    await self._do(step)
                done = number
                del left[: len(group)]
                if group[0].to and left:
                    await self._prove(left)
        except StoppedError as stopped:
            return Executed(done, len(groups), str(stopped), tuple(self._cordoned))
        return Executed(done, len(groups), "", tuple(self._cordoned))

    async def _do(self, step: PlanStep) -> None:
        if step.action == "evict":
            await self._evict(step)
        elif step.action == "create":
            await self._create(step)
        else:
            before = {
                pod.metadata.uid for each in step.placed for pod in await self._alike(each.pod) if pod.spec.node_name
            }
            await self._set_unschedulable(step.node, unschedulable=step.action == "cordon")
            for placed in step.placed:
                before.add(await self._until_on(placed.pod, placed.node or "", before))

    async def _set_unschedulable(self, name: str, *, unschedulable: bool) -> None:
        body = msgspec.json.encode({"spec": {"unschedulable": unschedulable or None}})
        await self._transport.patch(NODE, "", name, body, MERGE_PATCH)
        if unschedulable:
            self._cordoned.append(name)
        else:
            self._cordoned.remove(name)

    async def _prove(self, steps: Sequence[PlanStep]) -> None:
        """Read the cluster, and see whether the steps that are left would still go as planned."""
        snapshot = await self._look()
        cluster = Site.of(snapshot, self._setup, seed=self._seed).cluster
        now = [msgspec.structs.replace(each, pod=self._names.get(each.pod, each.pod)) for each in steps]
        reason = disagreement(cluster, now)
        if reason:
            raise StoppedError(f"the cluster has changed: {reason}")

    # -- a pod -------------------------------------------------------------------------------------------------------

    async def _evict(self, step: PlanStep) -> None:
        key = self._names.get(step.pod, step.pod)
        namespace, _, name = key.partition("/")
        pod = await self._read(key)
        if pod is None or pod.spec.node_name != step.node:
            raise StoppedError(f"{key} is not on {step.node} any more")
        before = {each.metadata.uid for each in await self._siblings(pod)} | {pod.metadata.uid}
        await self._ask_for_eviction(pod, namespace, name)
        deadline = self._deadline()
        while True:
            gone = (now := await self._read(key)) is None or now.metadata.uid != pod.metadata.uid
            if gone and not step.workload:
                return  # nobody replaces it
            fresh = [each for each in await self._siblings(pod) if each.metadata.uid not in before]
            placed = [each for each in fresh if each.spec.node_name]
            on_target = [each for each in placed if each.spec.node_name == step.to]
            if placed and not on_target:
                raise StoppedError(
                    f"the scheduler has put {placed[0].key} on {placed[0].spec.node_name}, not on {step.to}"
                )
            if gone and any(is_ready(each) for each in on_target):
                self._names[step.pod] = next(each.key for each in on_target if is_ready(each))
                return
            await self._wait(deadline, f"the pod in place of {key} does not run yet")

    async def _ask_for_eviction(self, pod: Pod, namespace: str, name: str) -> None:
        """Evict a pod; while its disruption budget forbids it, wait."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": pod.metadata.uid}},
        }
        deadline = self._deadline()
        while True:
            try:
                await self._transport.create(
                    POD, namespace, msgspec.json.encode(body), name=name, subresource="eviction"
                )
            except ApiError as error:
                if error.status != BUDGET_SAYS_NO:
                    raise StoppedError(f"{pod.key} may not be evicted: {error.message}") from None
                if self._watch.is_stopped:
                    raise StoppedError("you asked for it") from None
                await self._wait(deadline, f"{pod.key} may not be evicted yet: {error.message}")
            else:
                return

    async def _create(self, step: PlanStep) -> None:
        manifest = self._manifests.get(step.pod)
        if manifest is None:
            raise StoppedError(f"the manifest of {step.pod} is not known")
        namespace = step.pod.partition("/")[0]
        await self._transport.create(POD, namespace, msgspec.json.encode(manifest))
        await self._until_on(step.pod, step.to)

    async def _until_on(self, key: str, node: str, before: Container[str] = ()) -> str:
        """Wait until a pod runs on a node, or another of its controller that was not `before`; return its uid.

        Of replicas that wait for the same room, the queue decides which comes first.
        """
        deadline = self._deadline()
        while True:
            alike = [pod for pod in await self._alike(key) if pod.metadata.uid not in before]
            for pod in alike:
                if pod.spec.node_name == node and is_ready(pod):
                    return pod.metadata.uid
            if alike and all(pod.spec.node_name not in ("", node) for pod in alike):
                raise StoppedError(f"the scheduler has put {key} on {alike[0].spec.node_name}, not on {node}")
            await self._wait(deadline, f"{key} does not run yet")

    async def _alike(self, key: str) -> list[Pod]:
        """Return a pod, if it is there, and the others of its controller."""
        pod = await self._read(key)
        if pod is None:
            return []
        return [pod, *(each for each in await self._siblings(pod) if each.metadata.uid != pod.metadata.uid)]

    async def _read(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        try:
            found: Pod = decode("Pod", await self._transport.get(POD, namespace, name))
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        return found

    async def _siblings(self, pod: Pod) -> list[Pod]:
        """The pods of the same controller."""
        owners = _controllers(pod)
        listed = msgspec.json.decode(await self._transport.list(POD, namespace=pod.metadata.namespace), type=_Pods)
        pods: list[Pod] = [decode("Pod", item) for item in listed.items]
        return [each for each in pods if owners & _controllers(each)]

    def _deadline(self) -> float:
        return monotonic() + self._patience.step_s

    async def _wait(self, deadline: float, what: str) -> None:
        if monotonic() > deadline:
            raise StoppedError(f"{what}, after {self._patience.step_s:g} s")
        await asyncio.sleep(self._patience.poll_s)


class _Pods(msgspec.Struct):
    items: list[msgspec.Raw] = []


def _controllers(pod: Pod) -> set[str]:
    return {owner.uid for owner in pod.metadata.owner_references if owner.controller}


def is_ready(pod: Pod) -> bool:
    """Say whether a pod runs, and is ready where anything says so."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("", "Pending", *FINISHED_PHASES):
        return False
    return all(each.status == "True" for each in pod.status.conditions if each.type == "Ready")


def told(group: Sequence[PlanStep]) -> str:
    """Say what is done at once, in a few words."""
    step = group[0]
    if step.action == "evict":
        return f"evict {step.pod} from {step.node}, to {step.to}"
    return f"{step.action} {', '.join(each.node or each.pod for each in group)}"


def undone(cordoned: Iterable[str]) -> str:
    """Return the command that takes cordons back that a stopped plan leaves behind."""
    return shlex.join(["kubectl", "uncordon", *cordoned])
