"""`berth decide`: recorded cases in, decisions out, one JSON line each."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import click
import msgspec

from berth.api.codec import ObjectError
from berth.api.untrusted import UNREADABLE, problem_of
from berth.cli.setup import config_option, gates_option, plugin_option, read_registry, read_setup, warn
from berth.config.errors import ConfigError
from berth.config.load import NamedPlugins, document_enabling
from berth.core.generation import GENERATIONS
from berth.framework.setup import Setup
from berth_workbench.cases.cases import CaseError, case_for
from berth_workbench.cases.decide import told
from berth_workbench.cases.queue_lives import is_life, replay_life
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.cluster_input import manifests_option, read_cluster_given
from berth_workbench.cli.decide_cluster import decide_cluster
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
from berth_workbench.snapshot.text import unpacked


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--no-memos", is_flag=True, help="Compute every column afresh; the decisions must be the same.")
@click.option(
    "--generation",
    type=click.Choice(list(GENERATIONS)),
    help="Decide all cases as this release did; cases of another keep their cluster and get its default profile.",
)
@plugin_option
@click.option(
    "--cluster",
    multiple=True,
    metavar="CLUSTER",
    help="Decide about the pending pods of a cluster instead: a snapshot, or what kubectl get -o yaml|json printed.",
)
@manifests_option
@config_option
@gates_option
def command(
    file: BinaryIO,
    no_memos: bool,
    generation: str | None,
    plugins: tuple[str, ...],
    cluster: tuple[str, ...],
    manifests: tuple[str, ...],
    config_file: str,
    feature_gates: str,
) -> None:
    """Decide recorded cases, or pods of a cluster's snapshot, without a cluster.

    FILE holds one case a line (standard input by default; .gz files are read as they are): the objects of a small
    cluster, and the pods to place in turn. Prints {"name": …, "steps": [decision, …]} for each. A line may also hold
    the life of a scheduling queue, step by step: {"name": …, "states": [what it held after each step, …]} is printed
    for that. A case that cannot be read is reported on standard error, the others go on, and the exit code is 1.

    With --cluster each pod is a case: its pending pods in the order of the queue, or those of -f. One that fits takes
    its room before the next is decided. Nothing is bound, and nobody is preempted.
    """
    if cluster:
        if generation is not None and config_file:
            raise click.UsageError("--generation stands for the default configuration of a release; leave out --config")
        if generation is None:
            snapshot, used, setup, assumed = read_asked(cluster, "", "", config_file, plugins, feature_gates)
            tell_assumed(assumed if used.document else "", err=True)
        else:
            snapshot, setup = read_cluster_given(cluster), _of(generation, read_setup("", plugins, feature_gates))
        if setup.config.extenders:
            warn(EXTENDERS_LEFT_OUT)
            setup = setup._replace(config=msgspec.structs.replace(setup.config, extenders=()))
        decide_cluster(snapshot, manifests, setup, memos=not no_memos)
        return
    if manifests or config_file or feature_gates:
        raise click.UsageError("-f, --config and --feature-gates go with --cluster")
    registry, named = read_registry(plugins)

    def decide(case: dict[str, Any]) -> None:
        if is_life(case):
            if generation not in (None, case.get("generation", "v1.36")):
                raise CaseError(f"life {case.get('name')!r}: its steps mean nothing to a queue of {generation}")
            states = replay_life(case, registry, memos=not no_memos)
            sys.stdout.buffer.write(msgspec.json.encode({"name": case.get("name", ""), "states": states}) + b"\n")
            return
        asked = _enabling(named, case if generation is None else case_for(case, generation))
        answer = told(asked, registry, memos=not no_memos)
        sys.stdout.buffer.write(msgspec.json.encode({"name": case.get("name", ""), **answer}) + b"\n")

    if read_cases(file, decide):
        sys.exit(1)


def _of(generation: str, setup: Setup) -> Setup:
    """Return the setup with the default configuration of a release."""
    from berth.config.feature_gates import feature_gates
    from berth.config.load import default_config, legacy_default_config

    gates = feature_gates({}, generation)
    return setup._replace(config=legacy_default_config(gates) if generation == "v1.20" else default_config(gates))


def _enabling(named: NamedPlugins, case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a case that says nothing of its profiles with these plugins enabled; others enable what they want."""
    says = any(case.get(key) is not None for key in ("config", "policy", "provider"))
    if not named or says or case.get("generation", "v1.36") != "v1.36":
        return case
    return {**case, "config": document_enabling(named)}


def read_cases(file: BinaryIO, decide: Callable[[dict[str, Any]], None]) -> bool:
    """Call `decide` with each case of a file; report those that cannot be read, and return whether there were any."""
    failed = False
    with file:
        lines = unpacked(file, file.name)
        for number, line in enumerate(filter(bytes.strip, lines), start=1):
            try:
                decide(msgspec.json.decode(line, type=dict[str, Any]))
            except (*UNREADABLE, CaseError, ConfigError, ObjectError) as error:
                click.echo(f"{file.name}:{number}: {problem_of(error)}", err=True)
                failed = True
    return failed
