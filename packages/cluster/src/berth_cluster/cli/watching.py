"""`berth up --watch`: a scheduler in a process of its own, which is started again when a plugin's file is saved.

The API server stays, and with it the cluster. The new process reads everything anew, as in any rollout; where the
plugins cannot be used it says so and ends, and nobody schedules until a file is saved again. The configuration file is
followed by the scheduler itself.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path

from berth.cli.decision_log_flags import FILE_NAME, OFF, DecisionLogOptions
from berth.config.profiles import names_enabled
from berth.framework.setup import Setup
from berth.runtime.reload import fingerprint
from berth_cluster.cli.in_process import STOP_WITHIN_S, TypedSetup
from berth_cluster.embedded import EmbeddedCluster

LOOK_EVERY_S = 0.5
LONGEST_LINE_BYTES = 1024 * 1024


def sources_of(setup: Setup) -> list[tuple[Path, str]]:
    """Return directories and patterns of the files that matter: a plugin's package, or its file and those beside it."""
    theirs, found = setup.registry.out_of_tree(), set()
    for name in names_enabled(setup.config):
        if name in theirs:
            home = sys.modules[str(theirs.factory(name).__module__)]
            package = getattr(sys.modules[home.__name__.partition(".")[0]], "__path__", None)
            found.add((Path(next(iter(package))), "**/*.py") if package else (Path(str(home.__file__)).parent, "*.py"))
    return sorted(found)


def command_of(cluster: EmbeddedCluster, typed: TypedSetup, port: int, log: DecisionLogOptions) -> list[str]:
    """Return the `berth run` for a cluster, whose API server is named apart: a configuration may name another."""
    flags = {
        "kubeconfig": cluster.kubeconfig, "master": cluster.url, "leader-elect": "false", "bind-address": "127.0.0.1",
        "secure-port": port, "config": typed.config_file, "feature-gates": typed.feature_gates,
        "decision-log": log.file or cluster.kubeconfig.with_name(FILE_NAME),
        "decision-log-size": "" if log.file == OFF else log.size_bytes,
    }  # fmt: skip
    given = [f"--{name}={value}" for name, value in flags.items() if value != ""]
    # No compiled files: one that was saved twice within a second, at the same length, would be taken for the first.
    return [sys.executable, "-PBm", "berth", "run", *given, *(f"--plugin={each}" for each in typed.plugins)]


async def keep_restarting(
    command: Sequence[str], sources: Sequence[tuple[Path, str]], tell: Callable[[str], None], ready: asyncio.Event
) -> None:
    """Have the scheduler at work until cancelled; `tell` prints a line of its log, or of ours.

    `ready` is set when it has seen the whole cluster, or has failed.
    """
    while True:
        settled = seen = await asyncio.to_thread(_contents, sources)
        # In a session of its own it hears of Ctrl-C from us, while the API server is still there.
        process = await asyncio.create_subprocess_exec(
            *command, stderr=PIPE, limit=LONGEST_LINE_BYTES, start_new_session=True
        )
        telling = asyncio.create_task(_hand_on(process, tell, ready))
        try:
            before = seen
            while seen == settled or seen != before:  # a change counts when it is seen twice: an editor may be at it
                await asyncio.sleep(LOOK_EVERY_S)
                before, seen = seen, await asyncio.to_thread(_contents, sources)
        finally:
            await _end(process)
            await telling
        tell("a plugin's file has changed; the scheduler is started again")


def _contents(sources: Sequence[tuple[Path, str]]) -> dict[Path, str]:
    return {file: fingerprint(file) for directory, pattern in sources for file in directory.glob(pattern)}


async def _hand_on(process: Process, tell: Callable[[str], None], ready: asyncio.Event) -> None:
    assert process.stderr is not None, "it is a pipe"
    async for line in process.stderr:
        tell(line.decode(errors="replace").rstrip("\n"))
        if b"] caches are synced" in line:  # the log of `LiveScheduler`
            ready.set()
    ready.set()


async def _end(process: Process) -> None:
    """Have it finish what is under way, and end it where that takes too long."""
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
