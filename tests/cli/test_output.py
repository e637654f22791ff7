"""`-o` of all commands: the same words everywhere, checked before anything is done."""

import json

import click
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth.cli.commands import Commands, tables
from berth.cli.output import is_structured, output_option, output_option_naming, print_structured

RESULT = {"pods": [{"pod": "shop/web-1", "node": None}, {"pod": "shop/web-2", "node": "n1"}], "count": 2}


@click.command()
@output_option_naming("the pods")
def naming(output):
    print_structured(RESULT, output, (each["pod"] for each in (*RESULT["pods"], *RESULT["pods"])))


@click.command()
@output_option
def nameless(output):
    assert not is_structured(output)


def run(command, *arguments):
    return CliRunner().invoke(command, arguments)


def test_each_form_says_the_same():
    assert json.loads(run(naming, "-o", "json").stdout) == RESULT
    assert yaml.safe_load(run(naming, "-o", "yaml").stdout) == RESULT
    assert run(naming, "-o", "name").stdout == "shop/web-1\nshop/web-2\n"  # each once
    assert run(naming, "-o", "jsonpath={.pods[*].pod}").stdout == "shop/web-1 shop/web-2"
    assert run(naming, "-o", "jsonpath={.count}").stdout == "2"


@pytest.mark.parametrize(
    ("command", "typed", "said"),
    [
        (naming, "nmae", "'nmae' is not supported; did you mean name?"),
        (naming, "custom-columns=A:.a", "'custom-columns=' is not supported; there are table, wide, name, json"),
        (naming, "jsonpath={.pods", "{.pods has no closing brace"),
        (naming, "jsonpath", "the template is missing"),
        (nameless, "name", "name is not supported here"),
    ],
)
def test_what_is_not_supported_is_wrong_usage(command, typed, said):
    result = run(command, "-o", typed)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("typed", ["table", "wide"])
def test_tables_are_for_people(typed):
    assert run(nameless, "-o", typed).exit_code == 0


def test_a_template_is_refused_before_a_cluster_is_read():
    result = run(main, "whatif", "--cluster", "there-is-no-such-file", "-o", "jsonpath={.pods[")
    assert result.exit_code == 2
    assert "no closing brace" in result.stderr


FILES = {"snapshot", "trace generate", "trace import"}
"""Their `-o` is a file to write."""


def every_command(names=()):
    """Yield each command and each command of a group, with its name."""
    for name in names or Commands(tables()).names:
        command = Commands(tables()).load(name)
        yield name, command
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                inner = command.list_commands(context)
                yield from ((f"{name} {each}", command.get_command(context, each)) for each in inner)


def test_every_command_that_has_it_has_the_same_one():
    found = {}
    for name, command in every_command():
        for option in command.params:
            if "-o" in option.opts and name not in FILES:
                found[name] = option.type.__class__.__module__
    assert set(found.values()) == {"berth.cli.output"}
    assert {"explain", "whatif", "rebalance", "compare", "plugins", "version", "trace show"} <= set(found)
