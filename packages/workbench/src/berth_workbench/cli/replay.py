"""`berth replay`: a recording once more, as it was made, or compared with another configuration.

A directory or a file that `berth run --record` has written in; words or JSON out. Exit code 0, or 1 where the recording
cannot be read, or where it comes out differently although nothing was changed.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import replace

from berth.cli.output import Output, is_structured, output_option_naming, print_structured
from berth.cli.setup import config_option, plugin_option, read_registry, warn
from berth.cycle.difference_kinds import DIFFERENCE_WORDS
from berth.runtime.observing.logs import legible
from berth_workbench.cli.progress import EndedEarly, Work, found_by_then, working

if TYPE_CHECKING:
    from berth.framework.registry import Registry
    from berth.recording.file_format import Segment, SegmentHeader
    from berth_workbench.replay.export import Exported
    from berth_workbench.replay.recording_comparison import ConfigOf, DecisionChange, RecordingComparison
    from berth_workbench.replay.verification import Verification

SHOWN = 10
"""How many differences are listed; `-o json` has all of them."""


class WrittenPart(NamedTuple):
    """What of a recording is written, and how."""

    around: str
    last: int
    anonymize: bool


@click.command("replay", short_help="What was recorded, once more: the same, or where it first differs.")
@click.argument("recording", type=click.Path(path_type=Path))
@config_option
@click.option("--generation", default="", metavar="v1.20|v1.36", help="Compare with this generation's default profile.")
@plugin_option
@click.option("--seed", type=int, default=None, help="Compare with what another seed draws among equally good nodes.")
@click.option(
    "--export",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the recording, or a part of it, to one file, for a bug report.",
)
@click.option(
    "--to-test",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.py",
    help="Write a pytest case that checks the recorded decisions, and the recording that it needs beside it.",
)
@click.option("--around", default="", metavar="POD", help="With these two: only what is about this pod, or shortly so.")
@click.option("--last", default=0, type=click.IntRange(0), metavar="N", help="With these two: the last N events only.")
@click.option("--anonymize", is_flag=True, help="With these two: rename everything that has a name, and drop messages.")
@output_option_naming("the pods that are decided differently")
def command(
    recording: Path,
    config_file: str,
    generation: str,
    plugins: tuple[str, ...],
    seed: int | None,
    export: Path | None,
    to_test: Path | None,
    around: str,
    last: int,
    anonymize: bool,
    output: Output,
) -> None:
    """Replay what `berth run --record` has recorded.

    RECORDING is the directory, or one file. Every core is made again from its configuration and its seed, and given
    the same events and answers at the same times. All that comes out is compared, bit for bit.

    With --config, --generation, --seed, or a --plugin that was not there, decisions are compared one by one, each on
    the recorded cluster as it was at that moment: which differ, and because of which plugin.

    With --export or --to-test a file is written, and nothing is compared.
    """
    if export is None and to_test is None and (around or last or anonymize):
        raise click.UsageError(
            "--around, --last and --anonymize say what --export and --to-test write: give one of those"
        )
    if anonymize and to_test is not None and around:
        raise click.UsageError("--to-test names the pod of --around, which --anonymize renames: leave one of them out")
    if around and last:
        raise click.UsageError("--around and --last are two parts of a recording: give one of them")
    if (export or to_test) and (config_file or generation or seed is not None):
        raise click.UsageError("--export and --to-test write what was recorded, whatever another configuration decides")
    if to_test is not None and to_test.suffix != ".py":
        raise click.UsageError(f"--to-test writes a Python module: its name must end in .py, not {to_test.name!r}")
    registry, named = read_registry(plugins)
    if export is not None or to_test is not None:
        written = _written(recording, registry, export, to_test, WrittenPart(around, last, anonymize))
        if is_structured(output):
            print_structured(written, output, (each.file for each in written))
        else:
            click.echo("\n".join(legible(f"wrote {each.file}: {_size_told(each)}") for each in written))
        return
    other = _other(recording, config_file, generation, [name for name in named if name])
    verification, comparison = _replay(recording, registry, other, seed)
    if is_structured(output):
        changes = () if comparison is None else comparison.changes
        result = {"verification": verification, "comparison": comparison}
        print_structured(result, output, (each.pod for each in changes))
    else:
        click.echo("\n".join(map(legible, _told(verification, comparison))))
    if verification is not None and not verification.is_same:
        sys.exit(1)
    if not _is_complete(verification, comparison):
        raise EndedEarly(found_by_then())


def _other(recording: Path, config_file: str, generation: str, named: list[str]) -> "ConfigOf | None":
    """Return the configuration to compare with; None for the recorded one. Raises `ConfigError`, `RecordingError`."""
    from berth.config.load import load_config_file
    from berth.core.generation import GENERATIONS
    from berth.recording.configs import config_of
    from berth_workbench.replay.alternatives import of_generation, this_config, with_plugins

    if config_file and generation:
        raise click.UsageError("--config and --generation are two configurations: give one of them")
    if generation and generation not in GENERATIONS:
        raise click.BadParameter(f"{generation!r}: Berth knows {', '.join(GENERATIONS)}", param_hint="--generation")
    header = _first_header(recording)
    new = [name for name in named if name not in header.plugins]
    if config_file:
        config = load_config_file(config_file, gates=config_of(header.config).feature_gates)
        return this_config(config)
    if generation:
        return of_generation(generation)
    return with_plugins(new) if new else None


def _first_header(recording: Path) -> "SegmentHeader":
    from berth.recording.errors import RecordingError
    from berth.recording.file_format import read_segments

    for segment in read_segments(recording):
        return segment.header
    raise RecordingError("the recording is empty: the process ended before it had written anything")


def _replay(
    recording: Path, registry: "Registry", other: "ConfigOf | None", seed: int | None
) -> "tuple[Verification | None, RecordingComparison | None]":
    """Replay bit for bit if nothing is changed, and compare decisions if that does not tell everything."""
    from berth.decisions.side_by_side import SUCCESSORS
    from berth_workbench.replay.recording_comparison import RecordingComparer
    from berth_workbench.replay.verification import verify

    verification = None
    if other is None and seed is None:
        with working("replaying") as work:
            verification = verify(_segments(recording, work), registry)
        if verification.is_same and not verification.headless_lives:
            return verification, None
    with working("comparing decisions") as work:
        comparer = RecordingComparer(registry, other=other, seed=seed, successors=SUCCESSORS)
        return verification, comparer.follow(_segments(recording, work))


def _written(
    recording: Path, registry: "Registry", export: Path | None, to_test: Path | None, part: WrittenPart
) -> "list[Exported]":
    """Write what was asked for, each file whole or not at all. Raises `RecordingError`, `ConfigError`."""
    from berth_workbench.replay.anonymizer import anonymize
    from berth_workbench.replay.export import around_pod, everything, last_events
    from berth_workbench.replay.export import export as write
    from berth_workbench.replay.targets import refuse_part_of, replacing

    beside = None if to_test is None else to_test.with_suffix(".rec")
    for target in (export, to_test, beside):
        if target is not None:
            refuse_part_of(recording, target)
    if part.around:
        span = around_pod(recording, part.around)
    else:
        span = last_events(recording, part.last) if part.last else everything()

    def write_to(path: Path, target: Path) -> "Exported":
        exported = write(recording, path, span, registry)
        if part.anonymize:
            anonymize(path)
            _warn_of_differences(path, registry)
        return replace(exported, file=str(target), bytes=path.stat().st_size)

    found = []
    if export is not None:
        with replacing(export) as path:
            found.append(write_to(path, export))
    if to_test is not None and beside is not None:
        with replacing(to_test) as test_path, replacing(beside) as path:
            exported = write_to(path, beside)
            text, decisions = _source_of_test(path, beside, registry, part.around)
            size = test_path.write_bytes(text.encode())
        found += [exported, replace(exported, file=str(to_test), decisions=decisions, bytes=size)]
    return found


def _warn_of_differences(anonymized: Path, registry: "Registry") -> None:
    """Say where decisions are no longer the recorded ones, since something was not renamed or is left out."""
    from berth_workbench.replay.recorded_test import checked

    different = sum(each.recorded != each.now for each in checked(anonymized, registry=registry))
    if different:
        warn(
            f"{different} decisions are others once everything is renamed: they depend on names, or on what is left out"
        )


def _source_of_test(path: Path, beside: Path, registry: "Registry", around: str) -> tuple[str, int]:
    """Return a test of the recording at `path`, which is to lie beside it as `beside`, and its number of decisions."""
    from berth_workbench.replay.recorded_test import checked, source_of_test

    pods = [around if "/" in around else f"default/{around}"] if around else []
    decisions = checked(path, *pods, registry=registry)
    different = sum(each.recorded != each.now for each in decisions)
    text = source_of_test(beside, decisions, _first_header(path).berth, *pods)
    if different:
        warn(f"{different} of its decisions are others here, so the test fails as it is")
    return text, len(decisions)


def _size_told(written: "Exported") -> str:
    size = f"{written.bytes / 1024:.0f} KiB" if written.bytes >= 1024 else f"{written.bytes} bytes"
    return f"{written.events} events, {written.decisions} decisions, {size}"


def _segments(recording: Path, work: Work) -> "Iterator[Segment]":
    """Yield the segments, telling how far it is."""
    from berth.recording.file_format import read_segments, recording_files

    work.total = sum(path.stat().st_size for path in recording_files(recording))
    for segment in read_segments(recording):
        segment.advance = work.advance
        segment.is_stopped = lambda: work.is_stopped
        yield segment
        if work.is_stopped:
            return


def _told(verification: "Verification | None", comparison: "RecordingComparison | None") -> list[str]:
    """Return the result in words."""
    lines = [] if verification is None else _told_verification(verification)
    lines += [] if comparison is None else _told_comparison(comparison)
    return lines if _is_complete(verification, comparison) else ["Not known: stopped while replaying. By then:", *lines]


def _is_complete(verification: "Verification | None", comparison: "RecordingComparison | None") -> bool:
    return all(found is None or found.is_complete for found in (verification, comparison))


def _told_verification(found: "Verification") -> list[str]:
    lines = [
        f"{found.events} events, {found.decisions} decisions, {found.bindings} bindings, {found.evictions} evictions",
        f"of {_count(found.lives, 'core')} in {_count(found.segments, 'segment')}",
    ]
    if found.is_cut:
        lines.append("a segment's end is missing, as after a kill: what is there was replayed")
    if found.headless_lives:
        lines.append(f"the beginning of {_count(found.headless_lives, 'core')} is gone: not replayed")
    first = found.first_difference
    if first is not None:
        lines.append(f"differs at event {first.event}, {_at(first.time, first.wall_time)}: {first.what}")
        lines.append(f"  recorded  {first.recorded}")
        lines.append(f"  now       {first.now}")
    elif found.replayed:
        lines.append(f"the same, bit for bit: {found.replayed} events replayed")
    return lines


def _told_comparison(found: "RecordingComparison") -> list[str]:
    lines = [f"{found.compared} of {found.decisions} decisions compared, each on the recorded cluster"]
    lines += [f"  {count:>7}  not compared: {why}" for why, count in found.not_compared.items()]
    if not found.different:
        return [*lines, "all of them are the same" if found.is_complete else "no difference among these"]
    first = found.changes[0]
    lines.append(f"the first that differs is event {first.event}, {_at(first.time, first.wall_time)}")
    for change in found.changes[:SHOWN]:
        lines += _told_change(change)
    if found.different > SHOWN:
        lines.append(f"  … and {found.different - SHOWN} more")
    kinds = ", ".join(f"{count} {DIFFERENCE_WORDS[kind]}" for kind, count in found.kinds.items())
    lines.append(f"{found.different} of {found.compared} decided differently: {kinds}")
    lines += [f"  {count:>7}  because of {plugin}" for plugin, count in found.plugins.items()]
    return lines


def _told_change(change: "DecisionChange") -> list[str]:
    from berth_workbench.showing.words import because

    why = f"  because of {because(change.plugins, is_alone=change.alone)}" if change.plugins else ""
    line = f"  {change.pod}: {change.recorded or 'no node'} → {change.now or 'no node'}{why}"
    return [line] if change.now is not None or not change.message else [line, f"      {change.message}"]


def _at(time: float, wall_time: float) -> str:
    try:
        moment = datetime.fromtimestamp(wall_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # what the file says need not be a time
        moment = "at no time that there is"
    return f"at {time:.3f} s ({moment})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
