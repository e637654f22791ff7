"""Whatever happens to workloads, the cluster comes to rest at what was asked for last."""

import random

import pytest

from packages.cluster.tests.controllers.world import World, deployment, job, stateful_set, storage_class


class Disturbance:
    """Random things that people and machines do to a cluster."""

    def __init__(self, world, seed):
        self.world = world
        self.rng = random.Random(seed)
        self.wanted = {"web": 4, "db": 3}
        self.images = {"web": "nginx", "db": "nginx"}

    def act(self):
        self.rng.choice([self.scale, self.roll, self.kill, self.fail, self.wait, self.restart_late])()

    def scale(self):
        name = self.rng.choice(sorted(self.wanted))
        self.wanted[name] = self.rng.randrange(0, 9)
        self.world.scale("Deployment", name, self.wanted[name])

    def roll(self):
        name = self.rng.choice(sorted(self.images))
        self.images[name] = f"image-{self.rng.randrange(3)}"
        containers = [{"name": "main", "image": self.images[name]}]
        self.world.patch("Deployment", name, {"spec": {"template": {"spec": {"containers": containers}}}})

    def kill(self):
        if pods := self.world.pods():
            self.world.delete("Pod", self.rng.choice(pods)["metadata"]["name"])

    def fail(self):
        if pods := self.world.pods():
            name = self.rng.choice(pods)["metadata"]["name"]
            self.world.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")

    def wait(self):
        self.world.run(self.rng.choice([0.0, 0.5, 3.0]))

    def restart_late(self):
        for _ in range(self.rng.randrange(1, 5)):
            self.world.manager.step(self.world.now_s)


@pytest.mark.parametrize("seed", range(12))
def test_deployments_end_as_asked_for_last(seed):
    world = World(nodes=5)
    disturbance = Disturbance(world, seed)
    for name, replicas in disturbance.wanted.items():
        strategy = {"type": "Recreate"} if name == "db" and seed % 2 else {"type": "RollingUpdate"}
        world.create(deployment(name, replicas, strategy=strategy))
    for _ in range(60):
        disturbance.act()
    world.run(30)
    check(world, disturbance)
    world.run(700)  # past the progress deadlines: nothing may come of them
    check(world, disturbance)
    assert world.manager.next_deadline() is None


def check(world, disturbance):
    for name, replicas in disturbance.wanted.items():
        alive = [one for one in world.pods(f"app={name}") if one["status"]["phase"] == "Running"]
        assert len(alive) == replicas
        assert {one["spec"]["containers"][0]["image"] for one in alive} <= {disturbance.images[name]}
        status = world.status("Deployment", name)
        assert status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == replicas
        assert status["observedGeneration"] == world.get("Deployment", name)["metadata"]["generation"]


@pytest.mark.parametrize("seed", range(6))
def test_jobs_end_with_the_completions_asked_for(seed):
    world = World(nodes=5)
    rng = random.Random(seed)
    world.create(job("batch", completions=7, parallelism=3, backoffLimit=100))
    for _ in range(15):
        if (pods := world.pods()) and rng.random() < 0.5:
            name = rng.choice(pods)["metadata"]["name"]
            if rng.random() < 0.5:
                world.delete("Pod", name)
            elif world.get("Pod", name)["status"]["phase"] == "Running":
                world.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")
        world.run(rng.choice([0.0, 0.7, 15.0]))
    world.run(10_000)
    status = world.status("Job", "batch")
    assert status["succeeded"] == 7
    assert status.get("active", 0) == 0
    assert not any(one["metadata"].get("finalizers") for one in world.pods())


@pytest.mark.parametrize("seed", range(8))
def test_stateful_sets_end_as_asked_for_last_and_keep_their_claims(seed):
    world, rng = World(nodes=4), random.Random(seed)
    world.create(storage_class("disk", annotations={"storageclass.kubernetes.io/is-default-class": "true"}))
    policy = "Parallel" if seed % 2 else "OrderedReady"
    world.create(stateful_set("db", 3, claims=["data"], podManagementPolicy=policy))
    most, replicas = 0, 3
    image = "nginx"
    for _ in range(40):
        match rng.randrange(5):
            case 0:
                replicas = rng.randrange(0, 7)
                world.scale("StatefulSet", "db", replicas)
            case 1:
                image = f"image-{rng.randrange(3)}"
                containers = [{"name": "main", "image": image}]
                world.patch("StatefulSet", "db", {"spec": {"template": {"spec": {"containers": containers}}}})
            case 2 if world.pods():
                world.delete("Pod", rng.choice(world.pods())["metadata"]["name"])
            case 3 if world.pods():
                name = rng.choice(world.pods())["metadata"]["name"]
                world.patch("Pod", name, {"status": {"phase": "Failed"}}, subresource="status")
            case _:
                world.run(rng.choice([0.0, 0.5, 3.0]))
        most = max(most, len(world.all("PersistentVolumeClaim")))
    world.run(60)
    assert {one["metadata"]["name"] for one in world.pods()} == {f"db-{ordinal}" for ordinal in range(replicas)}
    assert {one["spec"]["containers"][0]["image"] for one in world.pods()} <= {image}
    status = world.status("StatefulSet", "db")
    assert status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == replicas
    assert status["currentRevision"] == status["updateRevision"]
    claims = world.all("PersistentVolumeClaim")
    names = [one["metadata"]["name"] for one in claims]
    assert names == [f"data-db-{ordinal}" for ordinal in range(max(most, replicas))]
    assert {one["status"]["phase"] for one in claims} == {"Bound"}
    volumes = {one["metadata"]["name"]: one["spec"]["claimRef"]["name"] for one in world.all("PersistentVolume")}
    assert volumes == {one["spec"]["volumeName"]: one["metadata"]["name"] for one in claims}
    assert world.manager.next_deadline() is None
