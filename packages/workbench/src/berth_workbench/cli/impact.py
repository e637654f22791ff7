"""`berth impact`: what an upgrade from v1.20 to v1.36 would change, and which plugin causes it."""

import sys
from typing import Any, BinaryIO

import click
import msgspec

from berth.cli.setup import read_registry
from berth_workbench.cli.decide import read_cases
from berth_workbench.comparison.impact import CaseImpact, impact, report


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--json", "as_json", is_flag=True, help="One JSON line for each case instead of the report.")
def command(file: BinaryIO, as_json: bool) -> None:
    """Decide the same clusters as v1.20 and as v1.36, and say which pods go elsewhere and why.

    FILE holds one case a line, as for `berth decide`. A case's configuration, policy or provider is used for its own
    generation; the other runs with its default profile. After each pod the choice of v1.20 stands for both. The plugin
    named for a change is one that, taken from v1.36, makes v1.20 decide like it; if none does, those that together do.
    """
    registry, _ = read_registry()
    found: list[CaseImpact] = []

    def decide(case: dict[str, Any]) -> None:
        found.append(impact(case, registry))
        if as_json:
            sys.stdout.buffer.write(msgspec.json.encode(_plain(found[-1])) + b"\n")

    failed = read_cases(file, decide)
    if not as_json:
        click.echo(report(found))
    if failed:
        sys.exit(1)


def _plain(found: CaseImpact) -> dict[str, Any]:
    changes = [
        {"pod": each.pod, "old": each.a, "new": each.b, "plugins": each.plugins, "alone": each.alone}
        for each in found.changes
    ]
    return {"name": found.name, "pods": found.pods, "changes": changes}
