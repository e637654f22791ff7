"""`berth snapshot`: a cluster into one file, from its API server or from what kubectl has printed."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.setup import BadConfigurationError, config_option, plugin_option, warn
from berth_workbench.cli.asked import configuration_at_work
from berth_workbench.cli.cluster_input import followed_by, read_cluster_given, signed, take_cluster

if TYPE_CHECKING:
    from berth.api.custom import CustomResource
    from berth_workbench.comparison.configurations import ConfigurationSource
    from berth_workbench.snapshot.header import Header
    from berth_workbench.snapshot.snapshot import Snapshot

SUFFIX = ".jsonl.gz"


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("-f", "--filename", "--cluster", "more", multiple=True, metavar="FILE", help="The same as FILE.")
@click.option("-o", "--output", default="", metavar="FILE", help="Where to write; by default a new file named by date.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="The cluster, where no FILE is given; by default the one that kubectl would use.",
)
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@config_option
@plugin_option
@click.option("--anonymize", is_flag=True, help="Rename everything that has a name; quantities and structure stay.")
@click.option(
    "--names",
    "names_file",
    default="",
    metavar="FILE",
    help="With --anonymize: where to write what was renamed to what. Keep that to yourself.",
)
def command(
    files: tuple[str, ...],
    more: tuple[str, ...],
    output: str,
    kubeconfig: str,
    context: str,
    config_file: str,
    plugins: tuple[str, ...],
    anonymize: bool,
    names_file: str,
) -> None:
    """Write a cluster into one file: what `--cluster` of the other commands takes.

    The cluster is that of the kubeconfig, or what FILE holds: output of `kubectl get … -o yaml` or `-o json`, files or
    directories, or - for standard input. Only what decisions depend on is kept: no secrets, config maps, commands or
    environments. Of custom resources there are those that the plugins of --config and --plugin follow, and
    Kueue's. With -o - the snapshot goes to standard output.
    """
    if names_file and not anonymize:
        raise click.UsageError("--names goes with --anonymize")
    given = (*files, *more)
    if given and (kubeconfig or context):
        raise click.UsageError("FILE and --kubeconfig are two different clusters; name one")
    source = _configuration(config_file, plugins, (kubeconfig, context), is_live=not given)
    custom = () if source is None or anonymize else _followed(source, is_asked=bool(config_file or plugins))
    if anonymize and (config_file or plugins):
        raise click.UsageError("--anonymize leaves custom resources out: what in them is a name, nobody has told")
    snapshot = _of_files(given, custom) if given else take_cluster(kubeconfig, context, custom)
    if source is not None and not anonymize:
        snapshot = decided_by(snapshot, source)
    if anonymize:
        snapshot = _anonymized(snapshot, names_file)
    assert snapshot.header is not None
    for line in _what_is_missing(snapshot.header):
        click.echo(line, err=True)
    written = _write(snapshot, output)
    click.echo(f"{written}: {_summary(snapshot.header)}", err=output == "-")


def _configuration(
    config_file: str, plugins: tuple[str, ...], where: tuple[str, str], *, is_live: bool
) -> "ConfigurationSource | None":
    """Return the configuration whose custom resources are taken, and that later questions are decided with."""
    from berth_workbench.cli.load_input import read_configuration

    if config_file or plugins:
        return read_configuration(config_file or "default", plugins, "")
    return configuration_at_work(*where) if is_live else None


def _followed(source: "ConfigurationSource", *, is_asked: bool) -> "Sequence[CustomResource]":
    """Return what the plugins of a configuration follow.

    Of a scheduler at work, plugins may not be installed here: then it is told what is missing, and the rest is taken.
    """
    from berth.config.errors import ConfigError

    try:
        return followed_by(source.load())
    except ConfigError as error:
        if is_asked:
            raise BadConfigurationError(str(error)) from None
        warn(f"what plugins follow is left out: {error}")
        return ()


def decided_by(snapshot: "Snapshot", source: "ConfigurationSource") -> "Snapshot":
    """Return a snapshot that says which configuration its cluster's scheduler has."""
    import msgspec

    from berth_workbench.snapshot.snapshot import Snapshot

    assert snapshot.header is not None
    said = {"configuration": source.deciding(), "feature_gates": source.feature_gates}
    return Snapshot(snapshot.documents, msgspec.structs.replace(snapshot.header, **said))


def _of_files(files: Iterable[str], custom: "Iterable[CustomResource]") -> "Snapshot":
    from berth_workbench.snapshot.wanted import resources_wanted
    from berth_workbench.snapshot.writer import taken_from_files

    given = read_cluster_given(tuple(files))
    return signed(taken_from_files(given, (*custom, *resources_wanted())))


def _anonymized(snapshot: "Snapshot", names_file: str) -> "Snapshot":
    from berth_workbench.snapshot.anonymizer import anonymized

    made, names = anonymized(snapshot)
    if names_file:
        import msgspec

        try:
            path = Path(names_file)
            path.touch(mode=0o600)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(names), indent=2) + b"\n")
        except OSError as error:
            raise click.ClickException(f"--names {names_file}: {error.strerror or error}") from None
    return made


def _write(snapshot: "Snapshot", output: str) -> str:
    """Write the file, and return its name."""
    from berth_workbench.snapshot.writer import write_lines, write_snapshot

    if output == "-":
        write_lines(snapshot, sys.stdout.buffer)
        return "standard output"
    assert snapshot.header is not None
    name = output or f"cluster-{''.join(each for each in snapshot.header.taken if each.isalnum())}{SUFFIX}"
    try:
        write_snapshot(snapshot, Path(name))
    except OSError as error:
        raise click.ClickException(f"-o {name}: {error.strerror or error}") from None
    return name


def _what_is_missing(header: "Header") -> Iterable[str]:
    from berth_workbench.snapshot.header import MAY_NOT, NOT_GIVEN, NOT_SERVED

    by_reason: dict[str, list[str]] = {}
    for missing in header.missing:
        by_reason.setdefault(missing.reason, []).append(missing.kind)
    if kinds := by_reason.get(NOT_SERVED):
        yield f"not served, and taken as none: {', '.join(kinds)}"
    if kinds := by_reason.get(NOT_GIVEN):
        yield f"none in the files: {', '.join(kinds)}"
    if kinds := by_reason.get(MAY_NOT):
        yield (
            f"warning: you may not list {', '.join(kinds)}: left out, so that decisions about this snapshot may differ "
            "from the cluster's; docs/snapshots.md has the role that allows it"
        )


def _summary(header: "Header") -> str:
    """`5 nodes, 20 pods, 3 other objects`."""
    nodes, pods = header.counts.get("Node", 0), header.counts.get("Pod", 0)
    others = sum(header.counts.values()) - nodes - pods
    said = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in ((nodes, "node"), (pods, "pod"))]
    return ", ".join([*said, f"{others} other object{'' if others == 1 else 's'}"])
