"""Credential plugins: real little programs, run, cached, renewed, and blamed by name when they fail."""

import asyncio
import json
import sys
from datetime import timedelta

import pytest

from berth.kube.credentials import exec_plugin
from berth.kube.credentials.exec_plugin import ExecPlugin
from berth.kube.credentials.kubeconfig import ExecConfig, ExecEnv
from berth.kube.credentials.sources import Credential, CredentialError
from packages.scheduler.tests.kube.fakes import VirtualClock

V1 = "client.authentication.k8s.io/v1"


class Plugin:
    """A script that prints what its test wants, and counts how often it ran."""

    def __init__(self, directory, **config):
        self.directory = directory
        self.clock = VirtualClock()
        script = directory / "plugin.py"
        script.write_text(
            "import os, sys\n"
            f"open({str(directory / 'runs')!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            f"sys.stdout.write(open({str(directory / 'output')!r}).read())\n"
            "sys.stderr.write(os.environ.get('COMPLAINT', ''))\n"
            "sys.exit(int(os.environ.get('CODE', '0')))\n"
        )
        fields = {"command": sys.executable, "args": (str(script),), "api_version": V1, "interactive_mode": "Never"}
        cluster = {"server": "https://s"}
        self.config = ExecConfig(**{**fields, **config})
        self.source = ExecPlugin(self.config, "f: user 'u'", cluster_info=cluster, now=self.clock.wall)
        self.prints({"token": "t1"})

    def prints(self, status, kind="ExecCredential", api_version=V1):
        self.prints_text(json.dumps({"kind": kind, "apiVersion": api_version, "status": status}))

    def prints_text(self, text):
        (self.directory / "output").write_text(text)

    @property
    def runs(self):
        path = self.directory / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_a_token_is_asked_for_once(tmp_path):
    plugin = Plugin(tmp_path)
    answers = await asyncio.gather(*(plugin.source.current() for _ in range(5)))
    assert answers == [Credential(token="t1")] * 5
    assert plugin.runs == [{"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}]


async def test_a_certificate(tmp_path):
    plugin = Plugin(tmp_path)
    plugin.prints({"clientCertificateData": "C", "clientKeyData": "K"})
    assert await plugin.source.current() == Credential(certificate_pem=b"C", key_pem=b"K")


async def test_it_is_renewed_shortly_before_it_expires(tmp_path):
    plugin = Plugin(tmp_path)
    expiry = (plugin.clock.wall() + timedelta(seconds=100)).isoformat().replace("+00:00", "Z")
    plugin.prints({"token": "t1", "expirationTimestamp": expiry})
    await plugin.source.current()
    plugin.prints({"token": "t2"})
    plugin.clock.now_s = 89
    assert (await plugin.source.current()).token == "t1"
    plugin.clock.now_s = 91
    assert (await plugin.source.current()).token == "t2"
    assert len(plugin.runs) == 2


async def test_a_refused_credential_is_asked_for_again(tmp_path):
    plugin = Plugin(tmp_path)
    first = await plugin.source.current()
    plugin.prints({"token": "t2"})
    assert plugin.source.invalidate(first)
    assert (await plugin.source.current()).token == "t2"


async def test_one_renewal_answers_many_refusals(tmp_path):
    plugin = Plugin(tmp_path)
    first = await plugin.source.current()
    for _ in range(3):
        assert plugin.source.invalidate(first)
        await plugin.source.current()
    assert len(plugin.runs) == 1 + 3  # the plugin insists on the same token each time
    plugin.prints({"token": "t2"})
    plugin.source.invalidate(first)
    second = await plugin.source.current()
    assert plugin.source.invalidate(first) and await plugin.source.current() == second
    assert len(plugin.runs) == 1 + 3 + 1


async def test_cluster_information_on_request(tmp_path):
    plugin = Plugin(tmp_path, provide_cluster_info=True)
    await plugin.source.current()
    assert plugin.runs[0]["spec"] == {"interactive": False, "cluster": {"server": "https://s"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "printed no ExecCredential that can be read"),
        ("token", "printed no ExecCredential that can be read"),
        ("[" * 100_000, "printed no ExecCredential that can be read"),
        ('{"status":{"x":' + "[" * 100_000 + "]" * 100_000 + "}}", "nested too deeply"),
        ('{"kind":"Pod","apiVersion":"v1"}', f"printed v1 Pod, expected {V1} ExecCredential"),
        ("{}", "printed no apiVersion without kind"),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}), "neither a token nor a client certificate"),
        (
            json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"clientKeyData": "K"}}),
            "clientCertificateData and clientKeyData together",
        ),
        (
            json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"expirationTimestamp": "soon"}}),
            "expirationTimestamp",
        ),
    ],
)
async def test_what_it_prints_wrongly_is_told(tmp_path, text, words):
    plugin = Plugin(tmp_path)
    plugin.prints_text(text)
    with pytest.raises(CredentialError, match=words) as caught:
        await plugin.source.current()
    assert str(caught.value).startswith("f: user 'u': exec: the plugin ")


async def test_its_failure_is_told_with_its_own_words(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPLAINT", "please log in")
    plugin = Plugin(tmp_path, env=(ExecEnv("CODE", "3"),))
    with pytest.raises(CredentialError, match="exit code 3: please log in"):
        await plugin.source.current()


async def test_a_plugin_that_is_not_there(tmp_path):
    plugin = Plugin(tmp_path, command="no-such-plugin-here", install_hint="brew install it")
    with pytest.raises(CredentialError, match="not installed or not on PATH; brew install it"):
        await plugin.source.current()


async def test_a_plugin_that_may_not_be_run(tmp_path):
    (tmp_path / "script").write_text("")
    plugin = Plugin(tmp_path, command=str(tmp_path / "script"))
    with pytest.raises(CredentialError, match=r"not installed|cannot be started"):
        await plugin.source.current()


async def test_questions_without_a_terminal(tmp_path):
    plugin = Plugin(tmp_path, interactive_mode="Always")
    with pytest.raises(CredentialError, match="standard input is not a terminal"):
        await plugin.source.current()


async def test_a_plugin_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(exec_plugin, "PLUGIN_TIMEOUT_S", 0.05)
    plugin = Plugin(tmp_path, args=("-c", "import signal; signal.pause()"))
    with pytest.raises(CredentialError, match="gave no answer within"):
        await plugin.source.current()
