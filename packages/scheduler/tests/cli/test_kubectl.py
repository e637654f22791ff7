"""`kubectl berth` without kubectl: the flags before a command's name, the namespace of the context, completion."""

import sys

import click
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import kubectl
from berth.cli.commands import CommandEntry
from berth.kube.credentials.access import context_namespace


@click.command("probe")
@click.argument("words", nargs=-1)
@click.option("--kubeconfig", default="")
@click.option("--context", default="")
@click.option("-n", "--namespace", default="default")
def command(words, kubeconfig, context, namespace):
    click.echo(f"{kubeconfig} {context} {namespace}")


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """A command that says with which flags it is run, and a kubeconfig whose contexts have namespaces."""
    entries = {"probe": CommandEntry(__name__, "Says its flags.")}
    monkeypatch.setattr(type(kubectl.plugin), "_found", Found(entries))
    contexts = [{"name": each, "context": {"cluster": "c", "namespace": each}} for each in ("shop", "ml")]
    document = {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "contexts": contexts}
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({**document, "current-context": "shop"}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


class Found:
    """The commands that there are."""

    def __init__(self, entries):
        self.names = list(entries)

    def load(self, name):
        return command if name in self.names else None

    def sections(self):
        return [("", [(name, "Says its flags.") for name in self.names])]


def said(*typed):
    found = CliRunner().invoke(kubectl.plugin, typed, prog_name=kubectl.PROGRAM)
    assert found.exit_code == 0, found.output
    return found.output.strip()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["probe"], "shop"),
        (["--context", "ml", "probe"], "ml ml"),
        (["probe", "--context=ml"], "ml ml"),
        (["-n", "own", "probe"], "own"),
        (["probe", "-n", "own"], "own"),
        (["-n", "own", "probe", "-n", "inner"], "inner"),
        (["--context", "nosuch", "probe"], "nosuch default"),
    ],
)
def test_flags_count_before_and_behind_and_the_namespace_is_the_contexts(probe, typed, expected):
    assert said(*typed) == expected


def test_a_kubeconfig_that_is_named_is_used(probe, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert said("--kubeconfig", str(probe), "probe") == f"{probe}  shop"
    assert said("probe", "--kubeconfig", str(probe)) == f"{probe}  shop"
    assert said("probe") == "default"
    assert context_namespace(str(tmp_path)) == ""


def test_without_a_command_there_is_help(probe):
    found = CliRunner().invoke(kubectl.plugin, [], prog_name=kubectl.PROGRAM)
    assert "Usage: kubectl berth" in found.output


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([], None),
        ([""], ["probe\tSays its flags.", ":4"]),
        (["pro"], ["probe\tSays its flags.", ":4"]),
        (["probe", "--cont"], ["--context", ":4"]),
        (["--cont"], ["--context\tThe kubeconfig context to use.", ":4"]),
    ],
)
def test_what_completes_is_told_as_cobra_reads_it(probe, monkeypatch, capsys, typed, expected):
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-berth", *typed])
    kubectl.complete()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == ":4"
    assert expected is None or lines == expected
