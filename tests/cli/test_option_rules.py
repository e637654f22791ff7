"""Options that would do nothing beside the others are refused, by every command, before any work is done."""

import re

import click
import pytest
from click.testing import CliRunner

from berth.cli import main

WITHOUT = [
    ("up --ui-port 8080", "--ui-port has no effect without --ui: add that, or leave --ui-port out"),
    ("up --record-limit 1Gi", "--record-limit has no effect without --record"),
    ("run --record-limit 1Gi", "--record-limit has no effect without --record"),
    ("explain web --certificate-authority ca.crt", "--certificate-authority has no effect without --server"),
    ("ui --certificate-authority ca.crt", "--certificate-authority has no effect without --server"),
    ("top --certificate-authority ca.crt", "--certificate-authority has no effect without --server"),
    ("ui --tls-private-key-file tls.key", "--tls-private-key-file has no effect without --tls-cert-file"),
]
WITH = [
    ("up --no-scheduler --scheduler-port 0", "--scheduler-port has no effect with --no-scheduler"),
    ("up --no-scheduler --decision-log off", "--decision-log has no effect with --no-scheduler"),
    ("up --no-scheduler --ui", "--ui has no effect with --no-scheduler"),
    ("up --decision-log off --decision-log-size 1Gi", "--decision-log-size has no effect with --decision-log off"),
    ("run --decision-log off --decision-log-size 1Gi", "--decision-log-size has no effect with --decision-log off"),
    ("explain web --what-would-help --watch", "--watch has no effect with --what-would-help"),
    ("explain web --what-would-help --node n1", "--node has no effect with --what-would-help"),
    ("explain web --what-would-help --server localhost", "--server has no effect with --what-would-help"),
    ("explain web --server localhost --lease a/b", "--lease has no effect with --server"),
    ("ui --cluster now.yaml --server localhost", "--server has no effect with --cluster"),
    ("ui --cluster now.yaml --context there", "--context has no effect with --cluster"),
    ("top --cluster now.yaml --lease a/b", "--lease has no effect with --cluster"),
    ("extender --without-cluster --kubeconfig admin.conf", "--kubeconfig has no effect with --without-cluster"),
    ("tune --objective cost --dask tcp://x:1 --jobs 2", "--jobs has no effect with --dask"),
    ("sweep sweep.yaml --dask tcp://x:1 --jobs 2", "--jobs has no effect with --dask"),
    ("trace import . --format alibaba-2018 -o x --largest-node-cpu 8", "--largest-node-cpu has no effect on alibaba"),
]


@pytest.mark.parametrize(("line", "told"), WITHOUT + WITH, ids=[line for line, _ in WITHOUT + WITH])
def test_what_would_do_nothing_is_wrong_usage(line, told):
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 2, done.output
    assert told in " ".join(done.output.split()), done.output


def test_an_environment_variable_may_say_more_than_a_command_needs(monkeypatch):
    """$BERTH_SCHEDULER is set once and holds for all commands."""
    monkeypatch.setenv("BERTH_SCHEDULER", "http://127.0.0.1:1")
    done = CliRunner().invoke(main, ["explain", "web", "--what-would-help", "--cluster", "/nowhere.yaml"])
    assert "--cluster /nowhere.yaml: there is no such file" in done.output


def options(command, words=()):
    """All options of a command and of those below it, with the words that lead there."""
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from options(command.get_command(context, name), (*words, name))
    else:
        yield from ((" ".join(words), each) for each in command.params if isinstance(each, click.Option))


def test_an_option_whose_help_begins_with_another_one_is_refused_without_it():
    """A help text such as "With --anonymize: …" is a promise that it does nothing without."""
    found = 0
    for words, option in options(main):
        partner = re.match(r"With (?:an https:// )?(--[a-z-]+):", option.help or "")
        if partner:
            found += 1
            done = CliRunner().invoke(main, [*words.split(), option.opts[0], "1"])  # a text, or a number
            assert done.exit_code == 2 and partner[1] in done.output, (words, option.opts)
    assert found >= 7
