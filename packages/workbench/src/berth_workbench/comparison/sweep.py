"""Sweeps: every configuration with every load and every seed, each run once, wherever there are workers.

A sweep is described by a file:

    seeds: 4                       # or a list of them
    configurations:
      default: default
      packed: packed.yaml          # or {file: …, plugins: […], featureGates: …}
    clusters:
      now: {cluster: cluster.yaml}
      rollout: {cluster: cluster.yaml, manifests: web.yaml, replaceAll: true, steps: [{loseZone: a}]}
    traces:
      day: day.jsonl.gz            # a file of `berth trace`
      any-day: {pattern: {pods: 20000, nodes: 200}}  # drawn anew for each seed
    prices: prices.yaml

Files are looked for beside it. `Sweep.read` reads all of them, so that a sweep is complete in memory before it begins.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.api.codec import ObjectError
from berth.api.user_error import UserError
from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.comparison.executors import Finished, workers
from berth_workbench.comparison.loads import ClusterLoad, DrawnLoad, hash_of, packed
from berth_workbench.comparison.results import ResultRow, ResultsDirectory
from berth_workbench.comparison.tasks import TaskDescription, TaskResult
from berth_workbench.planning.scenario import read_scenario
from berth_workbench.simulation.changes import ChangeError, ClusterChange, read_step
from berth_workbench.simulation.prices import PriceError, Prices
from berth_workbench.simulation.steps import Step
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.simulation.workloads import ManifestError
from berth_workbench.snapshot.documents import SnapshotError, read_manifests
from berth_workbench.snapshot.snapshot import read_cluster
from berth_workbench.traces.generator import DailyPattern, PatternError, check_pattern
from berth_workbench.traces.trace import TimedWorkload, TraceError, read_trace

MAX_RUNS = 100_000


class SweepError(UserError, ValueError):
    """A sweep that cannot be used; the message is one line that says which field, and why."""


class GivenConfiguration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A configuration in a sweep's file."""

    file: str = DEFAULT
    plugins: tuple[str, ...] = ()
    feature_gates: str = ""


class GivenCluster(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A cluster in a sweep's file, with what is to be tried on it."""

    cluster: str | list[str]
    manifests: str | list[str] = []
    replace_all: bool = False
    steps: list[dict[str, Any]] = []
    """As in a scenario's file: each has one key."""
    scenario: str = ""
    """A scenario's file, whose steps come before these."""


class GivenTrace(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A workload over time in a sweep's file: one that is in a file, or a pattern that is drawn anew for each seed."""

    file: str = ""
    pattern: dict[str, Any] | None = None
    """The fields of `DailyPattern`."""


class GivenSweep(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A sweep's file."""

    configurations: dict[str, str | GivenConfiguration]
    clusters: dict[str, GivenCluster] = {}
    traces: dict[str, str | GivenTrace] = {}
    seeds: int | list[int] = 1
    prices: str = ""


class SweepRun(msgspec.Struct, frozen=True):
    """A run, with the names of its parts in the sweep."""

    load: str
    configuration: str
    task: TaskDescription


class SweepSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A measure of a load with a configuration, over the seeds."""

    load: str
    configuration: str
    measure: str
    mean: float
    deviation: float | None
    """The standard deviation; None for one seed."""
    runs: int


class SweepResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a sweep."""

    runs: int
    """How many there are in all."""
    kept: int
    """How many of them had been finished before."""
    done: int
    """How many were carried out now."""
    failed: dict[str, int]
    """How many failed, by what was said."""
    table: str
    """The file with all results; empty as long as runs are missing."""
    is_parquet: bool
    summaries: tuple[SweepSummary, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every run has a result."""
        return self.kept + self.done == self.runs


class Sweep:
    """Loads by content, and the runs, in the order of the file."""

    __slots__ = ("contents", "runs")

    def __init__(
        self,
        contents: Mapping[str, bytes],
        configurations: Iterable[ConfigurationSource],
        seeds: Sequence[int],
        prices: Prices | None = None,
    ) -> None:
        """`contents` are packed loads, by the name of the load. Raises `SweepError` for more runs than `MAX_RUNS`."""
        hashes = {name: hash_of(content) for name, content in contents.items()}
        self.contents = {hashes[name]: content for name, content in contents.items()}
        sources = list(configurations)
        if len(hashes) * len(sources) * len(seeds) > MAX_RUNS:
            count = len(hashes) * len(sources) * len(seeds)
            raise SweepError(f"{count} runs: no more than {MAX_RUNS} are carried out in one sweep")
        self.runs = [
            SweepRun(name, source.name, TaskDescription(content, source, seed, prices))
            for name, content in hashes.items()
            for source in sources
            for seed in seeds
        ]

    @classmethod
    def read(cls, path: str | Path) -> "Sweep":
        """Read a sweep's file and all that it names. Raises `SweepError`."""
        path = Path(path)
        try:
            document = parse_document(path.read_bytes(), str(path))
            if not document:
                raise SweepError("there is nothing in it")
            _refuse_unknown(document, GivenSweep, "")
            given = msgspec.convert(document, GivenSweep)
            return _read(given, path.parent)
        except OSError as error:
            other = f" {error.filename}:" if error.filename and str(error.filename) != str(path) else ""
            raise SweepError(f"{path}:{other} {error.strerror or error}") from None
        except (msgspec.ValidationError, SweepError, PriceError, ChangeError) as error:
            raise SweepError(f"{path}: {error}") from None
        except (ConfigError, SnapshotError, ObjectError, ManifestError, TraceError) as error:
            raise SweepError(str(error)) from None


def _read(given: GivenSweep, directory: Path) -> Sweep:
    if not given.configurations:
        raise SweepError("configurations: at least one is needed")
    if not given.clusters and not given.traces:
        raise SweepError("clusters: at least one is needed, or one under traces")
    if shared := given.clusters.keys() & given.traces.keys():
        raise SweepError(f"traces.{min(shared)}: a cluster has that name")
    if isinstance(given.seeds, int) and given.seeds > MAX_RUNS:
        raise SweepError(f"seeds: {given.seeds}: no more than {MAX_RUNS} runs are carried out in one sweep")
    seeds = list(range(given.seeds)) if isinstance(given.seeds, int) else list(dict.fromkeys(given.seeds))
    if not seeds:
        raise SweepError("seeds: a number of 1 or more, or a list of seeds, is needed")
    prices = None
    if given.prices:
        prices = Prices.of_document(parse_document((directory / given.prices).read_bytes(), given.prices))
    contents = {name: packed(_cluster(name, each, directory)) for name, each in given.clusters.items()}
    contents |= {name: packed(_trace(name, each, directory)) for name, each in given.traces.items()}
    sources = [_source(name, each, directory) for name, each in given.configurations.items()]
    return Sweep(contents, sources, seeds, prices)


_PARTS: Mapping[str, type[msgspec.Struct]] = {
    "configurations": GivenConfiguration,
    "clusters": GivenCluster,
    "traces": GivenTrace,
}


def _refuse_unknown(document: object, of: type[msgspec.Struct], path: str) -> None:
    """Raise `SweepError` for a key that is not known, and say which are; what else is wrong is found later."""
    if not isinstance(document, Mapping):
        return
    known = [field.encode_name for field in msgspec.structs.fields(of)]
    if unknown := [key for key in document if key not in known]:
        raise SweepError(f"{path}{unknown[0]!r} is not known; known are {', '.join(known)}")
    for part, kind in _PARTS.items() if of is GivenSweep else ():
        given = document.get(part)
        for name, each in given.items() if isinstance(given, Mapping) else ():
            _refuse_unknown(each, kind, f"{part}.{name}: ")


def _source(name: str, given: str | GivenConfiguration, directory: Path) -> ConfigurationSource:
    if isinstance(given, str):
        given = GivenConfiguration(given)
    plugins = tuple(_beside(plugin, directory) for plugin in given.plugins)
    if given.file == DEFAULT:
        found = ConfigurationSource(name, plugins=plugins, feature_gates=given.feature_gates)
        found.load()
        return found
    return ConfigurationSource.of_file(directory / given.file, plugins, given.feature_gates, name=name)


def _beside(plugin: str, directory: Path) -> str:
    """Return `FILE.py:CLASS` with the file beside the sweep's; `MODULE:CLASS` stays."""
    file, _, name = plugin.rpartition(":")
    return f"{(directory / file).absolute()}:{name}" if file.endswith(".py") else plugin


def _cluster(name: str, given: GivenCluster, directory: Path) -> ClusterLoad:
    steps: list[Step] = read_scenario(directory / given.scenario) if given.scenario else []
    steps += _steps(given.steps, f"clusters.{name}.steps")
    load = ClusterLoad.of(
        read_cluster([directory / each for each in _listed(given.cluster)]),
        read_manifests([directory / each for each in _listed(given.manifests)]),
        replaces_all=given.replace_all,
        steps=steps,
    )
    if not load.pods and not steps:
        raise SweepError(f"clusters.{name}: nothing to do: no pod is pending, and no manifests or steps are given")
    return load


def _trace(name: str, given: str | GivenTrace, directory: Path) -> TimedWorkload | DrawnLoad:
    if isinstance(given, str):
        given = GivenTrace(given)
    if bool(given.file) == (given.pattern is not None):
        raise SweepError(f"traces.{name}: either a file or a pattern is needed")
    if given.pattern is None:
        return read_trace(directory / given.file)
    known = {field.encode_name for field in msgspec.structs.fields(DailyPattern)}
    if unknown := sorted(given.pattern.keys() - known):
        raise SweepError(f"traces.{name}.pattern: {unknown[0]!r} is not known; known are {', '.join(sorted(known))}")
    try:
        pattern = msgspec.convert(given.pattern, DailyPattern)
        check_pattern(pattern)
    except PatternError as error:
        raise SweepError(f"traces.{name}.pattern.{error}") from None
    except msgspec.ValidationError as error:
        raise SweepError(f"traces.{name}.pattern: {error}") from None
    return DrawnLoad(pattern)


def _steps(given: Sequence[Mapping[str, Any]], path: str) -> Iterator[ClusterChange]:
    for number, step in enumerate(given):
        if len(step) != 1:
            raise SweepError(f"{path}[{number}]: a step has exactly one key")
        ((key, value),) = step.items()
        yield read_step(key, value, f"{path}[{number}]")


def _listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


# -- carrying it out -------------------------------------------------------------------------------------------------


def carry_out_sweep(
    sweep: Sweep,
    directory: ResultsDirectory,
    *,
    dask: str = "",
    watch: WorkWatch = UNWATCHED,
) -> SweepResult:
    """Carry out the runs that are not finished yet, and write the table once all are.

    With `dask`, the address of a scheduler, they run there, else in as many processes here as `watch` allows, which
    hears of each run that ends. Raises `TaskError` where nothing more can be run, and OSError.
    """
    results = {run.task.key: found for run in sweep.runs if (found := directory.find(run.task.key)) is not None}
    kept = sum(run.task.key in results for run in sweep.runs)
    tasks = list({run.task.key: run.task for run in sweep.runs if run.task.key not in results}.values())
    inputs = {task.load: directory.keep_input(task.load, sweep.contents[task.load]) for task in tasks}
    failed: defaultdict[str, int] = defaultdict(int)

    def done(finished: Finished) -> None:
        if finished.error:
            failed[finished.error] += 1
        else:
            found = directory.keep(finished.result)
            results[found.key] = found
        watch.advance()

    if tasks:
        with workers(inputs, dask=dask) as carry:
            carry(tasks, done, watch)
    rows = list(_rows(sweep.runs, results))
    finished = sum(run.task.key in results for run in sweep.runs)
    table, is_parquet = directory.write_table(rows) if finished == len(sweep.runs) else ("", False)
    return SweepResult(
        runs=len(sweep.runs),
        kept=kept,
        done=finished - kept,
        failed=dict(failed),
        table=str(table),
        is_parquet=is_parquet,
        summaries=tuple(_summaries(rows)),
    )


def _rows(runs: Iterable[SweepRun], results: Mapping[str, TaskResult]) -> Iterator[ResultRow]:
    for run in runs:
        found = results.get(run.task.key)
        for measure, value in found.figures.items() if found is not None else ():
            yield ResultRow(run.load, run.configuration, run.task.seed, measure, value)


def _summaries(rows: Iterable[ResultRow]) -> Iterator[SweepSummary]:
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        values[row.load, row.configuration, row.measure].append(row.value)
    for (load, configuration, measure), some in values.items():
        deviation = statistics.stdev(some) if len(some) > 1 else None
        yield SweepSummary(load, configuration, measure, statistics.fmean(some), deviation, len(some))
