"""A cluster in process for a workload of scheduler_perf: the core in time that passes while it works.

API server and controllers answer at once and cost nothing; the clock goes on by what the core's own work takes, so that
"every 200 ms" means as many of its decisions as it manages in them. Where it has nothing to do the clock is put forward
to whatever comes next, which does not count.
"""

import gc
import heapq
import itertools
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import coroutine
from typing import Any, Final

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.dra import ResourceClaim
from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.core.intake import ObjectEvent, ShardsHeld
from berth.framework.effects import Answer, EvictPod
from berth.framework.registry import Registry
from berth.state.objects import key_of
from berth_workbench.scheduler_perf.documents import Document, PerfError
from berth_workbench.scheduler_perf.play import PlayedPod
from berth_workbench.simulation.claims import ClaimTemplate, claim_template, made_claims, released
from berth_workbench.simulation.measured import MeasuredCluster

MOST_IDLE_S: Final = 600.0
"""So long without a pod that gets its node, and who is waited for is taken to fit nowhere, as upstream does."""
STEPS_BETWEEN_LOOKS: Final = 256
"""While the core is busy it is only looked every so many steps whether what is waited for has come."""
DELETED_AT: Final = "2030-01-01T00:00:00Z"


class _PerfCluster(MeasuredCluster):
    """A measured core by whose work time goes on."""

    heard: Callable[[Pod, bool], None]
    """Told of each pod that the core has heard of, and whether it is gone."""

    def taken_in(self, event: ObjectEvent | ShardsHeld | Answer) -> None:
        """Tell of a pod."""
        if isinstance(event, ObjectEvent) and event.kind == "Pod":
            self.heard(event.obj, event.type == "DELETED")

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Free what a preempted pod leaves behind."""
        self.free(pod)

    def free(self, pod: Pod) -> None:
        """Free the claims of a pod that is gone."""
        left = released(pod, lambda kind, key: self.objects.get((kind, key)))
        for kind, key in left.deleted:
            self.delete(kind, key)
        for claim in left.changed:
            self.put(claim)

    def worked(self, seconds: float) -> None:
        """Let time go on."""
        super().worked(seconds)
        self.now += seconds


class InProcess:
    """A `PlayGround` in process."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        stopwatch: Callable[[], float] = time.thread_time,
    ) -> None:
        """`stopwatch` says what the core's work takes: CPU time, so that others at work on the machine do not count."""
        self.pods: dict[str, PlayedPod] = {}
        self.nodes: list[str] = []
        self.on_bound: Callable[[str, PlayedPod], None] = lambda _key, _pod: None
        self.left_out: set[str] = set()
        self._cluster = _PerfCluster(stopwatch, config=config, registry=registry)
        self._cluster.heard = self._hear
        self._templates: dict[str, ClaimTemplate] = {}
        self._serial = itertools.count()
        self._background: list[tuple[float, int, Coroutine[Any, Any, None]]] = []
        """What goes on beside, by when it is due."""
        self._last_bound = 0.0

    # -- objects -----------------------------------------------------------------------------------------------------

    async def create(self, documents: Iterable[Document]) -> None:
        """Create objects, and leave out those that are there."""
        for document in documents:
            kind, meta = document["kind"], document["metadata"]
            namespace, name = meta.get("namespace", ""), meta["name"]
            key = f"{namespace}/{name}" if namespace else name
            if kind == "ResourceClaimTemplate":
                self._templates[key] = claim_template("ResourceClaim", document.get("spec"), name)
            elif kind not in KINDS:
                self.left_out.add(kind)
            elif (kind, key) not in self._cluster.objects:
                made = self._decoded(document, f"{kind}/{key}/{next(self._serial)}")
                if isinstance(made, Pod):
                    made, claims = made_claims(made, self._templates)
                    for claim in claims:
                        self._cluster.put(claim)
                self._cluster.put(made)

    async def update(self, document: Document) -> None:
        """Put an object's spec and status in place of those that it has; a pod stays where it is."""
        meta, cluster = document["metadata"], self._cluster
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
        known = cluster.objects.get((document["kind"], key))
        if known is None:
            raise PerfError(f"{document['kind']} {key} is to be updated, and is not there")
        after = self._decoded(document, known.metadata.uid)
        if isinstance(after, Pod):
            node = after.spec.node_name or known.spec.node_name
            status = after.status if document.get("status") else known.status
            after = msgspec.structs.replace(
                after, spec=msgspec.structs.replace(after.spec, node_name=node), status=status
            )
        cluster.put(after)

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; one with finalizers stays, with the time of its deletion."""
        key = f"{namespace}/{name}" if namespace else name
        known = self._cluster.objects.get((kind, key))
        if known is None:
            return
        if known.metadata.finalizers:
            metadata = msgspec.structs.replace(known.metadata, deletion_timestamp=DELETED_AT)
            self._cluster.put(msgspec.structs.replace(known, metadata=metadata))
            return
        self._cluster.delete(kind, key)
        if isinstance(known, Pod):
            self._cluster.free(known)

    async def allocate(self, namespace: str) -> None:
        """Give claims their devices by way of pods that use them for a moment, which is not measured."""
        cluster = self._cluster
        claims = [
            claim
            for claim in cluster.objects.values()
            if isinstance(claim, ResourceClaim)
            and claim.metadata.namespace == namespace
            and claim.status.allocation is None
        ]
        pods = [_user_of(claim) for claim in claims]
        await self.create(pods)
        keys = [f"{namespace}/{pod['metadata']['name']}" for pod in pods]
        await self.until(lambda: all(self.pods[key].node for key in keys))
        for key, claim in zip(keys, claims, strict=True):
            cluster.delete("Pod", key)
            given = cluster.objects["ResourceClaim", key_of(claim)]
            status = msgspec.structs.replace(given.status, reserved_for=())
            cluster.put(msgspec.structs.replace(given, status=status))

    def _decoded(self, document: Document, uid: str) -> Any:
        metadata = {**document["metadata"], "uid": uid}
        try:
            return decode(document["kind"], {**document, "metadata": metadata})
        except ObjectError as error:
            raise PerfError(str(error)) from None

    def _hear(self, pod: Pod, is_gone: bool) -> None:
        if is_gone:
            self.pods.pop(pod.key, None)
            return
        known = self.pods.get(pod.key)
        if known is None:
            known = self.pods[pod.key] = PlayedPod(pod.metadata.namespace, pod.metadata.labels)
        known.attempted = bool(pod.spec.scheduling_gates) or any(
            each.type == "PodScheduled" for each in pod.status.conditions
        )
        if pod.spec.node_name and not known.node:
            known.node = pod.spec.node_name
            self._last_bound = self._cluster.now
            self.on_bound(pod.key, known)

    # -- time --------------------------------------------------------------------------------------------------------

    async def until(self, done: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Let the core work, and what goes on beside, until something holds."""
        cluster = self._cluster
        end = None if limit_s is None else cluster.now + limit_s
        self._last_bound = cluster.now
        for turn in itertools.count():
            if end is not None and cluster.now >= end:
                return done()
            self._run_due()
            deadline = cluster.core.next_deadline()
            is_idle = not cluster.core.has_work and (deadline is None or deadline > cluster.now)
            if (is_idle or not turn % STEPS_BETWEEN_LOOKS) and done():
                return True
            if not is_idle:
                cluster.step()
                continue
            due = (deadline, end, self._background[0][0] if self._background else None)
            coming = min((each for each in due if each is not None), default=None)
            if coming is None or (end is None and coming - self._last_bound > MOST_IDLE_S):
                return False
            cluster.now = max(cluster.now, coming)
        raise AssertionError("a count has no end")

    @coroutine
    def pause(self, seconds: float) -> Generator[float, None, None]:
        """Wait, in an operation that goes on in the background."""
        yield self._cluster.now + seconds

    def start(self, job: Coroutine[Any, Any, None]) -> None:
        """Have an operation go on in the background."""
        self._resume(job)

    def _run_due(self) -> None:
        while self._background and self._background[0][0] <= self._cluster.now:
            self._resume(heapq.heappop(self._background)[2])

    def _resume(self, job: Coroutine[Any, Any, None]) -> None:
        try:
            due = job.send(None)
        except StopIteration:
            return
        heapq.heappush(self._background, (due, next(self._serial), job))

    def close(self) -> None:
        """End what goes on beside."""
        for _, _, job in self._background:
            job.close()
        self._background.clear()

    def collecting(self) -> None:
        """Leave all that is there now out of garbage collections, as `berth run` does once it has read the cluster."""
        gc.collect()
        gc.freeze()

    def stopwatch(self) -> float:
        """Return how long the core has worked."""
        return self._cluster.seconds


def _user_of(claim: ResourceClaim) -> Document:
    metadata = {"name": claim.metadata.name, "namespace": claim.metadata.namespace}
    uses = [{"name": "claim", "resourceClaimName": claim.metadata.name}]
    spec = {"containers": [{"name": "pause", "image": "pause"}], "resourceClaims": uses}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
