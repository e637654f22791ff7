"""Processes of the command `berth` for end-to-end tests: started, waited for, killed, and never left behind."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from berth.api.resources import Resource
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.http.client import HttpTransport
from berth.kube.http.rate_limit import RateLimit
from berth.kube.transport import MERGE_PATCH
from tests.waiting import WAIT_S, eventually

BERTH = Path(sys.executable).with_name("berth")

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: %s}
clientConnection: {qps: -1}
"""


class Process:
    """One `berth` command, with its output in a file."""

    def __init__(self, log, *arguments, cwd=None):
        self.log = log
        self._file = log.open("ab")
        self.process = subprocess.Popen(
            [BERTH, *map(str, arguments)],
            cwd=cwd, stdout=self._file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def said(self):
        return self.log.read_text()

    def wait_until_it_says(self, words, seconds=WAIT_S):
        eventually(lambda: words in self.said() or self.process.poll() is not None, seconds)
        assert words in self.said(), f"it never said {words!r}:\n{self.said()}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._file.close()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds=WAIT_S):
        code = self.process.wait(seconds)
        self._file.close()
        return code


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Api:
    """The API server behind a kubeconfig, one synchronous call at a time."""

    def __init__(self, kubeconfig):
        self._access = kubeconfig_access([kubeconfig], environ={})

    def call(self, verb, resource, *arguments, **options):
        async def once():
            transport = HttpTransport(self._access, rate_limit=RateLimit(qps=-1))
            try:
                return await getattr(transport, verb)(resource, *arguments, **options)
            finally:
                await transport.close()

        return msgspec.json.decode(asyncio.run(once()))

    def create(self, resource, body, namespace="default"):
        return self.call("create", resource, namespace, msgspec.json.encode(body))

    def patch(self, resource, namespace, name, body):
        return self.call("patch", resource, namespace, name, msgspec.json.encode(body), MERGE_PATCH)

    def delete(self, resource, namespace, name):
        return self.call("delete", resource, namespace, name)

    def list(self, resource, **options):
        return self.call("list", resource, **options)["items"]

    def bindings(self):
        """The server's own record of binding calls."""
        return self.call("list", Debug("", "", "", "", False))["items"]


class Debug(Resource):
    """Not a resource: the path of the binding record."""

    __slots__ = ()

    def path(self, namespace="", name="", subresource=""):
        return "/debug/bindings"


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)


def deployment(name, replicas, cpu):
    labels = {"app": name}
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
