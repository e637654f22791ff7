"""`berth up` as a process: what it writes, what it says, what lives in it, how it ends."""

import base64
import json
import os
import signal
import ssl
import stat
import subprocess
import urllib.error
import urllib.request

import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from packages.cluster.tests.strategies.test_definitions import definition
from tests.e2e.processes import BERTH, deployment, free_port
from tests.waiting import WAIT_S, eventually

LOCKED = """
from berth.plugin import Action, ClusterEvent, ClusterEventWithHint, CustomResource, unschedulable

KEYS = CustomResource("example.com", "v1", "widgets", "Widget", namespaced=False)

class Locked:
    name = "Locked"

    def __init__(self, args, handle):
        self._keys = handle.follow(KEYS)

    def pre_filter(self, state, pod):
        return None if [*self._keys.list()] else unschedulable("locked")

    def events_to_register(self):
        return [ClusterEventWithHint(ClusterEvent(KEYS.name, Action.ALL))]
"""


class Up:
    """A running `berth up` and what it has said."""

    def __init__(self, directory, *options):
        self.directory = directory
        self.process = subprocess.Popen(
            [BERTH, "up", "--dir", directory, *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = []

    def wait_until_ready(self):
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if "Ctrl-C" in line:
                return "\n".join(self.said)
        raise AssertionError("berth up ended early:\n" + "\n".join(self.said))

    def next_line(self):
        """What it says next, but for how its pods are."""
        return next(line.rstrip("\n") for line in self.process.stdout if not line.startswith("pods: "))

    def next_line_with(self, text):
        return next(line for line in self.process.stdout if text in line)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, "".join(each for each in rest.splitlines(True) if not each.startswith("pods: "))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def up(tmp_path):
    started = []

    def start(*options, directory="cluster"):
        one = Up(tmp_path / directory, *options)
        started.append(one)
        return one

    yield start
    for one in started:
        one.close()


def client(cluster):
    """A caller of the API with what the kubeconfig holds."""
    config = yaml.safe_load((cluster.directory / "kubeconfig").read_text())
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca = base64.b64decode(server["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=ca)
    headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}

    def call(method, path, body=None, *, with_headers=False):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(server["server"] + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=context, timeout=WAIT_S) as answer:
            return answer.headers if with_headers else json.load(answer)

    return call


def test_says_when_it_is_ready_and_ends_cleanly(up):
    cluster = up("--nodes", "4", "--no-scheduler")
    text = cluster.wait_until_ready()
    kubeconfig = cluster.directory / "kubeconfig"
    assert "4 hollow nodes" in text
    assert f"export KUBECONFIG={kubeconfig}" in text
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert cluster.end(signal.SIGINT) == (0, "")


def test_a_pod_group_that_the_scheduler_does_not_look_at_is_stored_with_a_warning(up):
    """Where the feature gates are on nothing is said, and where nobody schedules nothing is known."""
    group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    gates = "GenericWorkload=true,GangScheduling=true"
    told = "PodGroup is stored, and nothing in this cluster acts on it: feature gates of its scheduler are off"
    cases = (((), f"{told} (--feature-gates {gates})"), (("--feature-gates", gates), ""), (("--no-scheduler",), ""))
    for number, (options, warning) in enumerate(cases):
        cluster = up("--nodes", "1", *options, directory=f"cluster-{number}")
        cluster.wait_until_ready()
        path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
        headers = client(cluster)("POST", path, group, with_headers=True)
        assert headers.get("Warning", "") == (warning and f'299 - "{warning}"')
        cluster.end()


def test_what_was_decided_is_known_after_a_restart(up):
    pod = {"metadata": {"name": "z"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    first = up("--nodes", "1", "--scheduler-port", free_port())
    first.wait_until_ready()
    call = client(first)
    call("POST", "/api/v1/namespaces/default/pods", pod)
    eventually(lambda: call("GET", "/api/v1/namespaces/default/pods/z")["spec"].get("nodeName"))
    assert first.end()[0] == 0
    second = up("--nodes", "1", "--scheduler-port", free_port())
    second.wait_until_ready()
    environment = {**os.environ, "KUBECONFIG": str(second.directory / "kubeconfig")}
    asked = subprocess.run([BERTH, "explain", "z"], capture_output=True, text=True, env=environment, check=False)
    assert (asked.returncode, asked.stdout.startswith("default/z goes to node-0")) == (0, True), asked.stderr


def test_the_schedulers_port_is_for_those_whom_the_cluster_lets_ask(up, tmp_path):
    port = free_port()
    cluster = up("--nodes", "1", "--scheduler-port", port)
    cluster.wait_until_ready()
    call = client(cluster)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    call("POST", "/api/v1/namespaces/default/pods", pod)
    eventually(lambda: call("GET", "/api/v1/namespaces/default/pods/p")["spec"].get("nodeName"))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def status(path, **headers):
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=WAIT_S) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    token = yaml.safe_load((cluster.directory / "kubeconfig").read_text())["users"][0]["user"]["token"]
    assert status("/healthz") == 200
    for path in ("/metrics", "/configz", "/debug/decisions", "/debug/pprof/profile?seconds=0.1"):
        assert status(path) == 403, path
        assert status(path, Authorization="Bearer wrong") == 401, path
        assert status(path, Authorization=f"Bearer {token}") == 200, path
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    call("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reader = call("POST", "/api/v1/namespaces/default/serviceaccounts/reader/token", asked)["status"]["token"]
    assert status("/metrics", Authorization=f"Bearer {reader}") == 403
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S)
    environment = {**os.environ, "KUBECONFIG": str(cluster.directory / "kubeconfig")}
    told = subprocess.run([BERTH, "explain", "p"], env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 0 and "default/p" in told.stdout, told.stderr
    completion = {**environment, "_BERTH_COMPLETE": "bash_complete", "COMP_WORDS": "berth explain p", "COMP_CWORD": "2"}
    named = subprocess.run([BERTH], env=completion, capture_output=True, text=True, check=False)
    assert named.stdout.split() == ["plain,p"]
    code, said = cluster.end()
    assert code == 0
    (line,) = said.splitlines()
    assert "1 did not finish the TLS handshake; the last from 127.0.0.1: HTTP_REQUEST" in line, "of the plain request"


PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: {name}
"""


def test_a_hangup_ends_no_cluster(up):
    cluster = up("--nodes", "1", "--no-scheduler")
    cluster.wait_until_ready()
    cluster.process.send_signal(signal.SIGHUP)
    assert "there is no configuration to read again" in cluster.next_line()
    assert client(cluster)("GET", "/api/v1/nodes/node-0")["kind"] == "Node"
    code, rest = cluster.end()
    assert code == 0 and "Traceback" not in rest


def test_a_hangup_puts_a_changed_configuration_in_force(up, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(PACKED.format(name="one"))
    cluster = up("--nodes", "1", "--scheduler-port", "0", "--config", file)
    cluster.wait_until_ready()
    cluster.process.send_signal(signal.SIGHUP)
    assert cluster.next_line().endswith(f"{file} has not changed")
    file.write_text(PACKED.format(name="other"))
    cluster.process.send_signal(signal.SIGHUP)
    assert cluster.next_line().endswith(f"the changed configuration {file} is in force")
    call = client(cluster)
    spec = {"schedulerName": "other", "containers": [{"name": "c", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    call("POST", "/api/v1/namespaces/default/pods", pod)
    eventually(lambda: call("GET", "/api/v1/namespaces/default/pods/p")["spec"].get("nodeName"))
    file.write_text("profiles: 7")
    cluster.process.send_signal(signal.SIGHUP)
    assert "the changed configuration is refused, and the old one stays in force" in cluster.next_line()
    assert cluster.end()[0] == 0


def test_a_saved_plugin_has_the_scheduler_started_again(up, tmp_path):
    file = tmp_path / "locked.py"
    file.write_text(LOCKED)
    cluster = up("--nodes", "1", "--scheduler-port", "0", "--plugin", f"{file}:Locked", "--watch")
    assert f"  watching    {tmp_path}/*.py\n" in cluster.wait_until_ready()
    call = client(cluster)
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    call("POST", "/api/v1/namespaces/default/pods", pod)

    def status():
        return call("GET", "/api/v1/namespaces/default/pods/p")["status"]

    eventually(lambda: "locked" in str(status()))
    file.write_text(LOCKED.replace("class Locked:", "class Locked"))
    cluster.next_line_with(f"the file {file} cannot be imported: SyntaxError in line 6")
    file.write_text(LOCKED.replace('"locked"', '"shut"'))
    eventually(lambda: "shut" in str(status()))
    assert cluster.end()[0] == 0


def test_what_is_watched_is_the_cluster_that_is_up(tmp_path):
    (tmp_path / "locked.py").write_text(LOCKED)
    config = tmp_path / "config.yaml"
    config.write_text(PACKED.format(name="one") + "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n")
    plugin = f"{tmp_path}/locked.py:Locked"
    done = CliRunner().invoke(main, ["up", "--watch", "--config", str(config), "--plugin", plugin])
    assert done.exit_code == 2 and "has no file to look at" in done.output
    config.write_text(
        config.read_text().replace("one\n", "one\n  plugins: {multiPoint: {enabled: [{name: Locked}]}}\n")
    )
    done = CliRunner().invoke(main, ["up", "--watch", "--config", str(config), "--plugin", plugin])
    assert done.exit_code == 2 and "leave clientConnection.kubeconfig" in done.output


def test_there_has_to_be_something_to_watch():
    for options, why in (
        (["--no-scheduler", "--plugin", "x"], "--watch has no effect with --no-scheduler"),
        (["--record", "x", "--plugin", "x"], "--record has no effect with --watch"),
        ([], "--watch has no file to look at: add --plugin, or --config with a plugin of yours"),
    ):
        done = CliRunner().invoke(main, ["up", "--watch", *options])
        assert done.exit_code == 2 and why in done.output, done.output


def test_pods_run_once_bound_and_the_deployment_knows(up):
    cluster = up("--nodes", "2", "--no-scheduler", "--node-cpu", "1")
    cluster.wait_until_ready()
    call = client(cluster)
    call("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web", replicas=2, cpu="600m"))
    pods = "/api/v1/namespaces/default/pods"
    found = eventually(lambda: len(items := call("GET", pods)["items"]) == 2 and items)
    for index, pod in enumerate(found):
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{index}"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        call("POST", f"{pods}/{name}/binding", binding)
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    eventually(lambda: call("GET", path)["status"].get("availableReplicas") == 2)
    assert cluster.end() == (0, "")


def test_pools_are_nodes_of_their_own(up, tmp_path):
    """What `docs/embedded-cluster.md` says of `--pool` and `--pools`, and the line of pods."""
    file = tmp_path / "pools.yaml"
    file.write_text("big: {nodes: 2, cpu: 64, zone: [a, b]}\n")
    cluster = up("--pools", file, "--pool", "gpu:1,nvidia.com/gpu=8,taint=dedicated=gpu:NoSchedule", "--no-scheduler")
    assert "3 hollow nodes" in cluster.wait_until_ready()
    call = client(cluster)
    nodes = {node["metadata"]["name"]: node for node in call("GET", "/api/v1/nodes")["items"]}
    assert sorted(nodes) == ["big-0", "big-1", "gpu-0"]
    assert nodes["big-1"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b"
    assert nodes["gpu-0"]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    call("POST", "/api/v1/namespaces/default/pods", pod)
    assert cluster.process.stdout.readline() == "pods: 1 pending (1: not looked at yet)\n"
    assert cluster.end() == (0, "")


def test_with_the_scheduler_a_deployment_comes_up_by_itself(up):
    cluster = up("--nodes", "3")
    assert "scheduler running" in cluster.wait_until_ready()
    call = client(cluster)
    path = "/apis/apps/v1/namespaces/default/deployments"
    call("POST", path, deployment("web", replicas=5, cpu="100m"))
    eventually(lambda: call("GET", f"{path}/web")["status"].get("availableReplicas") == 5)
    pods = call("GET", "/api/v1/namespaces/default/pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1", "node-2"}
    bindings = call("GET", "/debug/bindings")["items"]
    assert sorted(one["podUid"] for one in bindings) == sorted(pod["metadata"]["uid"] for pod in pods)
    assert cluster.end() == (0, "")


def test_what_a_plugin_follows_is_followed_as_soon_as_it_is_defined_and_its_absence_is_no_news(up, tmp_path):
    (tmp_path / "locked.py").write_text(LOCKED)
    cluster = up("--nodes", "1", "--plugin", f"{tmp_path}/locked.py:Locked")
    cluster.wait_until_ready()
    call = client(cluster)
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    path = "/api/v1/namespaces/default/pods"
    call("POST", path, pod)
    eventually(lambda: "locked" in str(call("GET", f"{path}/web")["status"]))
    call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(scope="Cluster"))
    eventually(lambda: "True" in str(call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]))
    key = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "key"}}
    call("POST", "/apis/example.com/v1/widgets", key)
    eventually(lambda: call("GET", f"{path}/web")["spec"].get("nodeName"))
    assert cluster.end() == (0, "") and "WARNING" not in "".join(cluster.said)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--node-cpu", "lots"), "--node-cpu"),
        (("--node-memory", "0"), "--node-memory"),
        (("--nodes", "-1"), "--nodes"),
        (("--pool", "gpu:4,gpus=8"), "--pool: pool gpu: gpus=8 says nothing"),
        (("--pool", "gpu", "--pool", "gpu:2"), "there are two pools gpu"),
        (("--pools", "/nowhere/pools.yaml"), "--pools"),
        (("--from", "/nowhere/cluster.yaml"), "--from /nowhere/cluster.yaml: there is no such file"),
    ],
)
def test_bad_options_are_explained(tmp_path, options, words):
    done = CliRunner().invoke(main, ["up", "--dir", str(tmp_path / "cluster"), *options])
    assert done.exit_code in (1, 2) and isinstance(done.exception, SystemExit)
    assert words in done.output


def test_an_address_that_is_not_of_this_machine_is_explained(up):
    cluster = up("--host", "192.0.2.1", "--no-scheduler")
    text, _ = cluster.process.communicate(timeout=WAIT_S)
    assert cluster.process.returncode != 0
    assert "choose another --host" in text and "Traceback" not in text


def test_a_cluster_goes_on_from_a_snapshot_of_another(up, tmp_path):
    first = up("--nodes", "2")
    first.wait_until_ready()
    call = client(first)
    call("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web", 3, "1"))
    before = placed(call, 3)
    file = tmp_path / "cluster.jsonl.gz"
    kubeconfig = first.directory / "kubeconfig"
    taken = subprocess.run(
        [BERTH, "snapshot", "--kubeconfig", kubeconfig, "-o", file], capture_output=True, text=True, check=True
    )
    assert taken.stdout.startswith(f"{file}: 2 nodes, 3 pods, ")
    first.end()

    second = up("--from", str(file), directory="another")
    assert "Berth is up: 2 hollow nodes" in second.wait_until_ready()
    call = client(second)
    assert placed(call, 3) == before
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    scaled = call("GET", path)
    scaled["spec"]["replicas"] = 5
    call("PUT", path, scaled)
    after = placed(call, 5)
    assert before.items() <= after.items()
    assert second.end()[0] == 0


def placed(call, count):
    """The node of each pod, by uid, once so many are running."""

    def running():
        pods = call("GET", "/api/v1/pods")["items"]
        is_done = len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)
        return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods} if is_done else None

    return eventually(running)
