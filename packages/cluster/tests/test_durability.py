"""`berth apiserver --dir` and `berth up --dir`, killed at any moment: what was answered is there after a restart.

Several clients write at once and note what they were answered. The process is killed after a number of answers that the
seed decides. After the restart each object is as it was acknowledged last, or as the one request left it that had no
answer yet; and no revision that anybody has seen is given out again.
"""

import asyncio
import base64
import random
import resource
import ssl
import subprocess

import aiohttp
import pytest
import yaml

from tests.e2e.processes import BERTH, Process, deployment
from tests.waiting import WAIT_S, eventually, until

WRITERS = 12
KILLS = 3
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"
GADGET_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                    }
                },
            }
        ],
    },
}


class Api:
    """A client with what a kubeconfig holds."""

    def __init__(self, kubeconfig):
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, self.token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
        self.url = cluster["server"]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

    async def __aenter__(self):
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.tls, limit=0))
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def __call__(self, method, path, body=None, kind="application/json", token=""):
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        async with self.session.request(method, self.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()


class Writer:
    """Writes to an object of its own; `known` is what it was answered last (None: the object is gone)."""

    def __init__(self, path, name, rng):
        self.path, self.name, self.rng = path, name, rng
        self.known = None
        self.asked = None  # the request that has no answer: its method, and the data that it would leave
        self.highest = 0

    async def write(self, api):
        """One more write, and what was answered."""
        text = {"n": str(self.rng.randrange(10**9)), "text": "x" * self.rng.choice([10, 1000, 9000])}
        if self.known is None:
            made = {**of_kind(self.path), "metadata": {"name": self.name}, "data": text}
            await self.ask(api, "POST", self.path, made, text)
            return
        method, path = self.rng.choice(["PUT", "PATCH", "PATCH", "DELETE"]), f"{self.path}/{self.name}"
        if method == "PUT":
            await self.ask(api, method, path, {**self.known, "data": text}, text)
        elif method == "PATCH":
            data = {**self.known["data"], "n": text["n"]}
            await self.ask(api, method, path, {"data": {"n": text["n"]}}, data, "application/merge-patch+json")
        else:
            await self.ask(api, method, path, None, None)

    async def ask(self, api, method, path, body, leaves, kind="application/json"):
        self.asked = (method, leaves)
        status, answer = await api(method, path, body, kind)
        assert status in (200, 201), answer
        self.asked = None
        self.known = None if method == "DELETE" else answer
        if self.known is not None:
            self.highest = max(self.highest, revision(answer))

    def check(self, found):
        """Hold what there is against what was answered; it is what the writer goes on from."""
        if without_type(found) != without_type(self.known):
            assert self.asked is not None, (self.name, found, self.known)
            method, leaves = self.asked
            assert (None if found is None else found["data"]) == leaves, (self.name, method)
            if found is not None:
                assert revision(found) > self.highest
                assert method == "POST" or found["metadata"]["uid"] == self.known["metadata"]["uid"]
        self.known = None if found is None else {**of_kind(self.path), **found}
        self.asked = None


def of_kind(path):
    return {"apiVersion": "example.com/v1", "kind": "Gadget"} if path == GADGETS else {}


def without_type(obj):
    """An object as lists of most kinds have it."""
    return obj and {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def revision(obj):
    return int(obj["metadata"]["resourceVersion"])


class Observer:
    """Follows a resource; all that it is told has to be there afterwards, whoever else was told."""

    def __init__(self):
        self.seen = {}

    async def follow(self, api):
        headers = {"Authorization": f"Bearer {api.token}"}
        url = f"{api.url}{CONFIG_MAPS}?watch=1"
        async with api.session.get(url, headers=headers, timeout=aiohttp.ClientTimeout()) as answer:
            async for line in answer.content:
                event = yaml.safe_load(line)
                self.seen[event["object"]["metadata"]["name"]] = (event["type"], revision(event["object"]))


async def killed_while_writing(process, api, writers, observer, answers):
    """Have all write at once, and kill the process after so many answers."""
    count = 0

    async def write_on(writer):
        nonlocal count
        while True:
            await writer.write(api)
            count += 1
            if count == answers:
                process.process.kill()

    tasks = [asyncio.create_task(write_on(writer)) for writer in writers]
    following = asyncio.create_task(observer.follow(api))
    ends = await asyncio.gather(*tasks, following, return_exceptions=True)
    unexpected = [end for end in ends if not isinstance(end, aiohttp.ClientError | OSError | None)]
    assert not unexpected, unexpected
    process.kill()


@pytest.fixture
def started(tmp_path):
    """Starts commands on one directory, one after the other, and leaves none behind."""
    processes = []

    def start(command, *options):
        log = tmp_path / f"log-{len(processes)}"
        processes.append(Process(log, command, "--dir", tmp_path / "cluster", *options))
        processes[-1].wait_until_it_says("Ctrl-C")
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


async def listed(api, path):
    status, answer = await api("GET", path)
    assert status == 200, answer
    return {each["metadata"]["name"]: each for each in answer["items"]}, revision(answer)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_what_was_answered_survives_kills(seed, started, tmp_path):
    print(f"seed {seed}")
    rng = random.Random(seed)
    directory, highest = tmp_path / "cluster", 0
    writers = [
        Writer(GADGETS if n % 3 == 0 else CONFIG_MAPS, f"w{n}", random.Random(rng.random())) for n in range(WRITERS)
    ]
    process = started("apiserver")
    async with Api(directory / "kubeconfig") as api:
        status, answer = await api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", GADGET_DEFINITION)
        assert status == 201, answer
    for kill in range(1, KILLS + 1):
        observer = Observer()
        async with Api(directory / "kubeconfig") as api:
            await killed_while_writing(process, api, writers, observer, rng.randrange(1, 400))
        process = started("apiserver")
        async with Api(directory / "kubeconfig") as api:
            config_maps, now = await listed(api, CONFIG_MAPS)
            gadgets, _ = await listed(api, GADGETS)
            highest = max([highest, *(writer.highest for writer in writers), *(at for _, at in observer.seen.values())])
            assert now >= highest
            for name, (kind, at) in observer.seen.items():
                found = config_maps.get(name)
                assert (
                    found is not None
                    or kind == "DELETED"
                    or writers[int(name[1:])].asked is not None
                    or (writers[int(name[1:])].known is None)
                )
                assert found is None or revision(found) >= at
            for writer in writers:
                writer.check((gadgets if writer.path == GADGETS else config_maps).get(writer.name))
            _, made = await api("POST", CONFIG_MAPS, {"metadata": {"name": f"new-{kill}"}})
            assert revision(made) > highest
            highest = revision(made)
            status, answer = await api("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")
            assert (status, answer["reason"]) == (410, "Expired")
    process.end()


async def test_tokens_and_accounts_outlive_the_process(started, tmp_path):
    directory = tmp_path / "cluster"
    process = started("apiserver")
    accounts, token_user = "/api/v1/namespaces/default/serviceaccounts", "system:serviceaccount:default:robot"
    async with Api(directory / "kubeconfig") as api:
        await api("POST", accounts, {"metadata": {"name": "robot"}})
        _, asked = await api("POST", f"{accounts}/robot/token", {"spec": {}})
    process.kill()
    process = started("apiserver")
    async with Api(directory / "kubeconfig") as api:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        status, review = await api("POST", path, {}, token=asked["status"]["token"])
    assert (status, review["status"]["userInfo"]["username"]) == (201, token_user)
    assert process.end() == 0


@pytest.mark.long
async def test_a_cluster_goes_on_after_a_kill(started, tmp_path):
    """Pods that run stay where they are, those that are to end do, and what is asked for afterwards comes about."""
    directory = tmp_path / "cluster"
    options = ("--nodes", 4, "--scheduler-port", 0)
    process = started("up", *options)
    pods, web = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments/web"
    ending = {
        "metadata": {"name": "ending", "annotations": {"berth.dev/run-seconds": "6"}},
        "spec": {"nodeName": "node-0", "restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
    }

    async def running(api, count):
        found, _ = await listed(api, pods)
        places = {
            name: (pod["metadata"]["uid"], pod["spec"]["nodeName"], pod["status"]["startTime"])
            for name, pod in found.items()
            if pod["status"].get("phase") == "Running" and name.startswith("web-")
        }
        return places if len(places) == count else None

    async with Api(directory / "kubeconfig") as api:
        await api("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web", 5, "1"))
        await api("POST", pods, ending)
        before = await until(lambda: running(api, 5))
        await api("DELETE", "/api/v1/nodes/node-3")
    process.kill()
    process = started("up", *options)
    assert "Berth is up: 3 hollow nodes" in process.said()
    assert f"The cluster in {directory} goes on" in process.said()
    async with Api(directory / "kubeconfig") as api:
        await api("PATCH", web, {"spec": {"replicas": 7}}, "application/merge-patch+json")
        after = await until(lambda: running(api, 7))

        async def ended():
            _, pod = await api("GET", f"{pods}/ending")
            return pod["status"]["phase"] == "Succeeded"

        await until(ended)
    on_nodes_that_stayed = {name: place for name, place in before.items() if place[1] != "node-3"}
    assert on_nodes_that_stayed.items() <= after.items()
    assert process.end() == 0


def test_a_full_disk_ends_the_server_with_a_message(started, tmp_path):
    """A limit on the size of files is as good as a full disk."""
    directory, limit = tmp_path / "cluster", 300_000

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with (tmp_path / "said").open("w") as said:
        server = subprocess.Popen(
            [BERTH, "apiserver", "--dir", directory], stdout=said, stderr=said, preexec_fn=limited
        )  # fmt: skip

    async def fill():
        async with Api(directory / "kubeconfig") as api:
            for number in range(1000):
                status, answer = await api(
                    "POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}"}, "data": {"t": "x" * 5000}}
                )
                if status != 201:
                    return number, status, answer
        return None

    eventually(lambda: (directory / "kubeconfig").exists())
    written, status, answer = asyncio.run(fill())
    assert (status, answer["reason"]) == (500, "InternalError")
    assert "cannot write" in answer["message"]
    assert server.wait(WAIT_S) == 1
    text = (tmp_path / "said").read_text()
    assert f"cannot write {directory}/objects.sqlite" in text
    assert "make room and start again" in text
    assert "Traceback" not in text
    process = started("apiserver")

    async def count():
        async with Api(directory / "kubeconfig") as api:
            return len((await listed(api, CONFIG_MAPS))[0])

    assert asyncio.run(count()) == written
    assert process.end() == 0


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_a_file_that_cannot_be_read_ends_with_a_message(tmp_path, command):
    (tmp_path / "objects.sqlite").write_bytes(b"what is this? " * 1000)
    ended = subprocess.run(
        [BERTH, command, "--dir", tmp_path], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert ended.returncode == 1
    assert "cannot go on with" in ended.stderr
    assert "Traceback" not in ended.stderr
