"""`berth check`: whether a pull request fits, for one cluster or several, as text and for the tools around it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import click

from berth.cli.output import Output, output_option_as
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.asked import read_asked
from berth_workbench.cli.asking import answered, asks, tell
from berth_workbench.cli.cluster_input import cluster_options, existing, namespace_option
from berth_workbench.planning.check import Check, Level
from berth_workbench.questions.check import (
    QUESTION,
    CheckOfSeveral,
    CheckRequest,
    is_at_least,
    of_several,
    told_of_several,
)

if TYPE_CHECKING:
    from berth_workbench.questions.question import Question

FORMATS: Final = ("markdown", "junit", "github")
"""How it can be printed beside what every command can."""
_SUFFIXES: Final[Mapping[str, str]] = {".md": "markdown", ".xml": "junit", ".json": "json"}


@asks(
    QUESTION,
    click.option("--base", multiple=True, metavar="FILE", help="The manifests of before: files, directories, or -."),
    click.option(
        "--head",
        multiple=True,
        required=True,
        metavar="FILE",
        help="The manifests of after: files, directories, or - for standard input; may be repeated.",
    ),
    cluster_options,
    namespace_option,
    click.option(
        "--fail-on",
        type=click.Choice(get_args(Level)[1:]),
        default=None,
        help="Exit with 1 where something is as bad as that, or worse.",
    ),
    click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FILE",
        help="Write the answer to a file as well: .md for Markdown, .xml for JUnit, .json; may be repeated.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken."),
    config_option,
    plugin_option,
    gates_option,
    output_option_as(*FORMATS),
    short_help="Whether a pull request fits: what becomes of the workloads that it touches.",
)
def command(
    base: tuple[str, ...],
    head: tuple[str, ...],
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    fail_on: Level | None,
    reports: tuple[str, ...],
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Ask about each cluster, and print what was found."""
    from berth_workbench.simulation.situation import Situation
    from berth_workbench.snapshot.places import read_side

    if (*base, *head, *cluster).count("-") > 1:
        raise click.UsageError("standard input (-) can be read once: give files for the others")
    for path in reports:
        _format_of(path)
    before = read_side([_given(path, "--base") for path in base], namespace).documents if base else None
    after = read_side([_given(path, "--head") for path in head], namespace)
    request = CheckRequest(tuple(after.documents), None if before is None else tuple(before), after.places)
    checks: dict[str, Check] = {}
    assumed: dict[str, None] = {}
    for name, files in _clusters(cluster).items():
        asked = read_asked(files, kubeconfig, context, config_file, plugins, feature_gates)
        assumed[asked.assumed] = None
        checks[name] = answered(QUESTION, Situation(asked.snapshot, asked.setup, (), namespace, seed), request)
    question, found = _one_answer(checks)
    words = "; ".join(filter(None, assumed))
    for path in reports:
        _write(path, question, found, checks)
    if output in FORMATS:
        click.echo(_printed(output, question, found, checks), nl=False)
    else:
        tell(question, request, found, output, assumed=words)
    if fail_on is not None and is_at_least(found, fail_on):
        sys.exit(1)


def _given(path: str, option: str) -> str | Path:
    return path if path == "-" else existing(path, option)


def _clusters(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the clusters by name, each with its files; one that is alone, or the one of a kubeconfig, has none."""
    if len(given) < 2:
        return {"": tuple(given)}
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, equals, file = text.rpartition("=")
        if not equals or Path(text).exists():
            name, file = Path(text).name.partition(".")[0], text
        if name in found:
            raise click.UsageError(f"--cluster: two are called {name!r}; NAME=FILE gives one another name")
        found[name] = (file,)
    return found


def _one_answer(checks: Mapping[str, Check]) -> "tuple[Question[Any, Any], Check | CheckOfSeveral]":
    if len(checks) == 1:
        return QUESTION, next(iter(checks.values()))
    return cast("Question[Any, Any]", QUESTION)._replace(told=told_of_several), of_several(checks)


def _format_of(path: str) -> str:
    found = _SUFFIXES.get(Path(path).suffix)
    if found is None:
        raise click.UsageError(f"--report {path}: the name ends in {', '.join(_SUFFIXES)}, which says what it is to be")
    return found


def _write(path: str, question: "Question[Any, Any]", found: Any, checks: Mapping[str, Check]) -> None:
    try:
        Path(path).write_text(_printed(_format_of(path), question, found, checks), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--report {path}: {error.strerror or error}") from None


def _printed(form: str, question: "Question[Any, Any]", found: Any, checks: Mapping[str, Check]) -> str:
    from berth_workbench.cli.check_reports import annotations, junit
    from berth_workbench.showing.markdown import markdown
    from berth_workbench.showing.sections import NoteSection

    if form == "junit":
        return junit(checks)
    if form == "github":
        return "".join(f"{line}\n" for line in annotations(checks))
    if form == "markdown":
        return markdown([*question.sections(found), *map(NoteSection, found.notes)])
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
