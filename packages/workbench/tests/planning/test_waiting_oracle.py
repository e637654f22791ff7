"""How long pods wait, against living through the ends once more, end by end, on a fresh cluster.

When pods end is read off the manifests here by the words of Kubernetes' documentation: a pod is killed when it has run
for its activeDeadlineSeconds, or is to be deleted; a Job's pods are deleted, running or not, when the Job has run for
those of its own. `mixed_worlds` has what else may be in the way.
"""

import random
from collections import Counter
from datetime import datetime

from berth.api.pod import Pod
from berth_workbench.simulation.measures import is_pending
from packages.workbench.tests.asking import waits_of
from packages.workbench.tests.planning.mixed_worlds import NOW, MixedWorld, registry, worlds

DAY_S = 86_400.0


def moment(text):
    return datetime.fromisoformat(text).timestamp()


def owner(manifest):
    return next(
        iter(manifest["metadata"].get("ownerReferences", ())), {"kind": "Pod", "name": manifest["metadata"]["name"]}
    )


class WorldThatEnds(MixedWorld):
    """A mixed world in which many pods end: by deadlines, with their Jobs, or as such pods usually do."""

    def __init__(self, seed):
        super().__init__(seed)
        rng = random.Random(-seed)
        self.durations = {f"default/{name}": 60.0 * rng.randrange(1, 800) for name in "abcdefgh" if rng.random() < 0.4}
        for pod in self.pods:
            if rng.random() < 0.25:
                pod["spec"]["activeDeadlineSeconds"] = 60 * rng.randrange(1, 900)
            if "deletionTimestamp" in pod["metadata"] and rng.random() < 0.2:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
        for job in self.others:
            if job["kind"] == "Job" and rng.random() < 0.7:
                job["spec"]["activeDeadlineSeconds"] = 60 * rng.randrange(1, 900)
                if rng.random() < 0.7:
                    job["status"] = {"startTime": f"2026-01-01T{rng.randrange(6, 12):02}:00:00Z"}


class Lived:
    """What became of the pods of a world, end by end."""

    def __init__(self, world, *, deadlines=True):
        self.world, self.deadlines, self.now = world, deadlines, moment(NOW)
        self.manifests = {each["metadata"]["name"]: each for each in world.pods}
        self.places, self.failed, self.ends = {}, {}, {}
        self.cluster = world.at_rest().cluster
        self.site_settles()

    def site_settles(self):
        """Live on until nobody ends within a week."""
        cluster, at = self.cluster, self.now
        began = cluster.now
        waiting = {pod.key for pod in cluster.of(Pod) if is_pending(pod)}
        for pod in cluster.of(Pod):
            if pod.spec.node_name:
                self.note(pod, self.started(pod.metadata.name))
        while True:
            due = [*self.ends.values(), *(end for pod in cluster.of(Pod) if (end := self.job_end(pod)) is not None)]
            if not due or min(due) > self.now + 7 * DAY_S:
                return
            at = max(min(due), self.now)
            for pod in list(cluster.of(Pod)):
                fails = self.job_end(pod)
                if self.ends.get(pod.key, at + 1) <= at or (fails is not None and fails <= at):
                    if not pod.spec.node_name:
                        self.failed[pod.key] = at
                    self.ends.pop(pod.key, None)
                    cluster.delete("Pod", pod.key)
            cluster.now = max(cluster.now, began + at - self.now)
            cluster.settle()
            self.ends = {key: end for key, end in self.ends.items() if cluster.placements.get(key)}  # not preempted
            for pod in cluster.of(Pod):
                if is_pending(pod):
                    waiting.add(pod.key)
                elif pod.key in waiting:
                    waiting.discard(pod.key)
                    self.places.setdefault(pod.key, (at - self.now, pod.spec.node_name))
                    self.note(pod, at)

    def started(self, name):
        text = self.manifests[name]["status"].get("startTime")
        return self.now if text is None else moment(text)

    def note(self, pod, started):
        manifest, ends = self.manifests[pod.metadata.name], []
        duration = self.world.durations.get(f"default/{owner(manifest)['name']}")
        if duration is not None and started + duration >= self.now:
            ends.append(started + duration)
        seconds = manifest["spec"].get("activeDeadlineSeconds")
        if self.deadlines and seconds is not None:
            ends.append(started + seconds)
        going = manifest["metadata"].get("deletionTimestamp")
        if self.deadlines and going is not None and moment(going) >= self.now - 60:
            ends.append(moment(going))
        if ends:
            self.ends[pod.key] = min(ends)

    def job_end(self, pod):
        manifest = self.manifests[pod.metadata.name]
        name = owner(manifest)["name"]
        job = next(
            (each for each in self.world.others if each["kind"] == "Job" and each["metadata"]["name"] == name), {}
        )
        seconds = job.get("spec", {}).get("activeDeadlineSeconds")
        if seconds is None or not self.deadlines or pod.status.phase == "Failed":
            return None
        if "status" in job:
            return moment(job["status"]["startTime"]) + seconds
        running = [each for each in self.world.pods if owner(each)["name"] == name and "nodeName" in each["spec"]]
        return min((self.started(each["metadata"]["name"]) for each in running), default=self.now) + seconds


@worlds(20)
def test_a_pod_gets_its_place_when_the_ends_give_it_one(seeds):
    kinds = Counter()
    for seed in seeds:
        world = WorldThatEnds(seed)
        found = waits_of(world.snapshot(), config=world.config, registry=registry(), durations=world.durations)
        lived, without = Lived(world), Lived(world, deadlines=False)
        at_first = {pod.key for pod in world.at_rest().cluster.of(Pod) if pod.spec.node_name}
        for each in found.pods:
            story = f"seed {seed}: {each.pod}"
            if each.pod in at_first:
                assert each.seconds == 0 and not each.is_bound, story
                continue
            place = lived.places.get(each.pod)
            assert (each.seconds, each.node) == (place or (None, None)), story
            if place is not None:
                later = each.pod not in without.places or without.places[each.pod][0] > place[0]
                assert each.is_bound == later, story
                kinds["a bound" if later else "expected"] += 1
            elif each.pod in lived.failed:
                assert (each.outlook, "its Job fails" in each.because) == ("never", True), story
                kinds["its Job fails"] += 1
            elif each.outlook in ("never", "unknown"):
                alone = fits_alone(world, each.pod.partition("/")[2])
                assert alone is None or (each.outlook == "never") == (not alone), story
                kinds["fits nowhere" if alone is False else "unknown"] += 1
            else:
                assert each.outlook == "held", story
                kinds["held"] += 1
    # Not every handful of worlds has them all, but the first has.
    assert len(kinds) == 6 or seeds.start, kinds


def fits_alone(world, name):
    """Whether a pod is placed on the nodes without any other pod; None where it needs others there."""
    pod = next(each for each in world.pods if each["metadata"]["name"] == name)
    spec = pod["spec"]
    if "schedulingGroup" in spec:
        return None
    affinity = {key: each for key, each in spec.get("affinity", {}).items() if key != "podAffinity"}
    alone = MixedWorld(0)
    alone.nodes, alone.others = world.nodes, []
    alone.pods = [{**pod, "spec": {**spec, "affinity": affinity, "nodeName": ""}, "status": {}}]
    return bool(alone.at_rest().cluster.placements[f"default/{name}"])
