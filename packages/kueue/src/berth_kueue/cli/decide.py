"""`berth kueue decide`: recorded cases of Kueue's scheduler in, records out, one JSON line each."""

import sys
from typing import Any, BinaryIO

import click
import msgspec

from berth.api.codec import ObjectError
from berth.api.untrusted import UNREADABLE, problem_of
from berth_kueue.decide import decide_case
from berth_kueue.lives import QueueStepError
from berth_workbench.snapshot.text import unpacked


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
def command(file: BinaryIO) -> None:
    """Decide recorded cases of Kueue's scheduler again, cycle by cycle.

    FILE holds one case a line (standard input by default; .gz files are read as they are): the objects of a small
    world, and the steps that happen then. Prints {"name": …, "record": [one element for each cycle]} for each. A case
    that cannot be read is reported on standard error, the others go on, and the exit code is 1.
    """
    failed = False
    with file:
        for number, line in enumerate(filter(bytes.strip, unpacked(file, file.name)), start=1):
            try:
                record = decide_case(msgspec.json.decode(line, type=dict[str, Any]))
            except (*UNREADABLE, QueueStepError, ObjectError) as error:
                click.echo(f"{file.name}:{number}: {problem_of(error)}", err=True)
                failed = True
            else:
                sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
    if failed:
        sys.exit(1)
