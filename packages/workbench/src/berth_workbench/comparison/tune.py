"""Looks for the weights that serve an objective best, and for the trade-off between two.

The search begins with the corners of the space, which is what people try by hand: the other strategy, one plugin much
stronger than the others, and then alone, or out. All are run with one seed, and the best third of them with the others,
so that few runs are spent on bad points. A climb continues from the best: one step along a parameter (a pattern search,
Hooke and Jeeves, 1961), else any value of one, else several at once, until the budget is used up. All points run with
the same seeds, so that luck in tie-breaks favours none. For two objectives the search is done for several weighted sums
of both, and the points that no other beats in both are the front.

Then each change without which the best is no worse is undone. The rest is checked with seeds that the search has not
seen: the best of many is partly the luckiest, and only fresh runs show by how much. A point that leaves more pods
without a node than the base loses to any that does not.
"""

import math
import random
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from berth.agreement.report import FigureCompared
from berth_workbench.comparison.concessions import given_up
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.executors import Carry, Finished
from berth_workbench.comparison.loads import Load
from berth_workbench.comparison.objectives import Objective, ObjectiveError
from berth_workbench.comparison.settings import Point, SettingSpace, moved
from berth_workbench.comparison.tasks import TaskDescription, TaskError, TaskResult
from berth_workbench.comparison.two_configurations import compared, compared_figure
from berth_workbench.simulation.measures import LOWER
from berth_workbench.simulation.prices import Prices
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

SHARE_OF_CORNERS = 0.6
"""How much of the budget the corners may use; the climb has what is left then."""
KEPT = 3
"""One of so many points is run with all seeds."""
AT_ONCE = 8
"""So many points of a climb are run together, whatever the number of workers: the search is the same for any."""
DRAWS = 2_000
"""After so many draws without a new point there is none left that is worth looking for."""
MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The weights of the second objective that the search is done for, where there are two."""
UNPLACED = ("pending", "neverPlaced")
Figures = Mapping[str, float]


class ObjectiveOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """How well a point does for an objective, over seeds."""

    objective: str
    mean: float
    """Of the measure itself; of a weighted sum, less is better."""
    deviation: float | None


class TunedPoint(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration that was tried with all seeds of the search."""

    changes: dict[str, int | str]
    """What differs from the base."""
    outcomes: tuple[ObjectiveOutcome, ...]
    is_on_front: bool


class TuningResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a search."""

    objectives: tuple[str, ...]
    base: str
    """The name of the configuration that it began with."""
    runs: int
    tried: int
    """How many configurations were run, whether or not with all seeds."""
    points: tuple[TunedPoint, ...]
    """Those that were run with all seeds; the base is the first."""
    best: dict[str, int | str]
    """What the best changes; for two objectives, the best for the mean of both. Empty where nothing was better."""
    document: dict[str, Any]
    """The best as a configuration, ready for use."""
    check: tuple[FigureCompared, ...]
    """All measures of the base (A) and the best (B) with the fresh seeds."""
    check_seeds: int
    outcomes: tuple[FigureCompared, ...]
    """The objectives of both with the fresh seeds."""
    is_better: bool
    """Whether the best is better than the base, in the sum that it was chosen by, with every fresh seed."""
    given_up: tuple[str, ...] = ()
    """What the best gives up that no measure tells, in sentences."""
    notes: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def worse(self) -> list[FigureCompared]:
        """The measures that were no objective and are worse with each of the fresh seeds."""
        wanted = {each.name for each in self.outcomes}
        return [each for each in self.check if each.better == "a" and each.name not in wanted]

    @property
    def front(self) -> list[TunedPoint]:
        """The points that no other beats in both objectives."""
        return [point for point in self.points if point.is_on_front]


class _Search(NamedTuple):
    """The criteria of a search."""

    score: Callable[[Figures, Figures], float]
    """Of some figures and of the base's with the same seed; less is better."""
    budget: int
    """How many runs it may use."""


class Tuner:
    """Runs points, and remembers the result of each with each seed."""

    def __init__(
        self,
        space: SettingSpace,
        carry: Carry,
        load: str,
        *,
        seeds: int = 3,
        seed: int = 0,
        prices: Prices | None = None,
        watch: WorkWatch = UNWATCHED,
    ) -> None:
        """`load` is the hash of the load's content. The search uses `seeds` seeds, the check as many fresh ones."""
        self.space = space
        self.seeds = tuple(range(seed, seed + seeds))
        self.fresh = tuple(range(seed + seeds, seed + 2 * seeds))
        self.runs = 0
        self.found: dict[tuple[Point, int], Figures] = {}
        self._carry, self._load, self._prices = carry, load, prices
        self._rng = random.Random(f"tune {seed}")
        self._watch = watch
        self._sources: dict[Point, ConfigurationSource] = {}
        self._tried: dict[Point, None] = {}
        """In the order of the search, which is always the same; results come in any."""
        self._known: set[Hashable] = set()
        """What they decide by."""

    @property
    def is_stopped(self) -> bool:
        """Whether it has been asked to stop."""
        return self._watch.is_stopped

    def run(self, points: Iterable[Point], seeds: Sequence[int]) -> None:
        """Run points with seeds, as far as they have not been. Raises `TaskError` where a run fails."""
        wanted = [(point, seed) for point in dict.fromkeys(points) for seed in seeds]
        for point in dict.fromkeys(point for point, _ in wanted if point not in self._tried):
            self._tried[point] = None
            self._known.add(self.space.essence(point))
        missing = [each for each in wanted if each not in self.found]
        tasks = {each: TaskDescription(self._load, self._source(each[0]), each[1], self._prices) for each in missing}
        by_key: dict[str, list[tuple[Point, int]]] = {}
        for each, task in tasks.items():
            by_key.setdefault(task.key, []).append(each)

        def done(finished: Finished) -> None:
            if finished.error:
                raise TaskError(f"a run has failed: {finished.error}")
            result = msgspec.json.decode(finished.result, type=TaskResult)
            for each in by_key[result.key]:
                self.found[each] = result.figures
            self.runs += 1
            self._watch.advance()

        self._carry([tasks[some[0]] for some in by_key.values()], done, self._watch)

    def cost(self, points: Iterable[Point], seeds: Sequence[int]) -> int:
        """Return how many runs that would take."""
        return sum((point, seed) not in self.found for point in set(points) for seed in seeds)

    def mean(self, point: Point, seeds: Sequence[int], search: _Search) -> float:
        """Return the score of a point over seeds; infinite where it was not run with all of them."""
        base, found = self.space.base, self.found
        if any((each, seed) not in found for each in (point, base) for seed in seeds):
            return math.inf
        scores = [search.score(found[point, seed], found[base, seed]) for seed in seeds]
        return math.fsum(scores) / len(scores)

    # -- the search --------------------------------------------------------------------------------------------------

    def search(self, search: _Search) -> Point:
        """Return the best point found within the budget."""
        limit = self.runs + search.budget
        base = self.space.base
        self.run([base], self.seeds)
        for_corners = self.runs + int((limit - self.runs) * SHARE_OF_CORNERS)
        self._sift(search, [point for corners in self.space.corners.values() for point in corners], for_corners)
        if not self._live():
            return base  # whatever is set, nothing in this load hears of it
        self._sift(search, list(self.space.far_corners(self._live())), for_corners)
        return self.climb(search, limit)

    def best(self, search: _Search) -> Point:
        """Return the best of the points that were run with all seeds; among equals, one with few changes."""
        points = self.complete() or [self.space.base]
        return min(points, key=lambda point: (self.mean(point, self.seeds, search), len(self.space.changes(point))))

    def _sift(self, search: _Search, points: Sequence[Point], limit: int) -> None:
        """Run as many points as the limit allows with the first seed, and the best of them with all seeds."""

        def kept(count: int) -> int:
            return max(2, math.ceil(count / KEPT))

        first, others = self.seeds[:1], len(self.seeds) - 1
        while points and self.runs + self.cost(points, first) + kept(len(points)) * others > limit:
            points = points[:-1]
        self.run(points, first)
        if points and not self.is_stopped:
            best = sorted(points, key=lambda point: self.mean(point, first, search))
            self.run(best[: kept(len(points))], self.seeds)

    def climb(self, search: _Search, limit: int) -> Point:
        """Return the best point that can be reached from the best so far, in batches of moves, the nearest first.

        A move is run with all seeds only if the first seed does not rule it out. Enough runs are left for simplifying
        the best.
        """
        best = self.best(search)
        moves = self._moves(best)
        first = self.seeds[:1]
        while self._live() and not self.is_stopped:
            room = limit - self.runs - self.cost(self._simpler(best), self.seeds)
            batch = self._new(moves, min(AT_ONCE, room + 1 - len(self.seeds)))
            if not batch:
                break
            self.run(batch, first)
            each = [self.mean(best, (seed,), search) for seed in self.seeds]
            bound = self.mean(best, first, search) + max(each) - min(each)
            hopeful = sorted((self.mean(point, first, search), point) for point in batch)
            left = (room - len(batch)) // max(len(self.seeds) - 1, 1)
            self.run([point for score, point in hopeful[:left] if score < bound], self.seeds)
            better = min(batch, key=lambda point: self.mean(point, self.seeds, search))
            if self.mean(better, self.seeds, search) < self.mean(best, self.seeds, search):
                best, moves = better, self._moves(better)
        return best

    def _new(self, points: Iterable[Point], count: int) -> list[Point]:
        """Return the first so many points that decide differently from all that were run, each once."""
        found: dict[Hashable, Point] = {}
        for point in points if count > 0 else ():
            essence = self.space.essence(point)
            if essence not in self._known:
                found.setdefault(essence, point)
                if len(found) == count:
                    break
        return list(found.values())

    def _moves(self, point: Point) -> Iterator[Point]:
        """Yield points around one, the nearest first, those that move what makes a difference before the others."""
        order = list(range(len(self.space.parameters)))
        self._rng.shuffle(order)
        order.sort(key=self._is_live, reverse=True)
        for parameter in order:
            yield from self.space.neighbours(point, parameter)
        for parameter in order:
            values = range(len(self.space.parameters[parameter].values))
            yield from (moved(point, parameter, value) for value in values)
        yield from self._drawn(point)

    def _drawn(self, point: Point) -> Iterator[Point]:
        """Yield points that differ from one in some parameters that make a difference."""
        live = self._live()
        return (self.space.random_point(self._rng, point, live) for _ in range(DRAWS))

    def _live(self) -> list[int]:
        """Return the parameters that make a difference, as far as is known."""
        return list(filter(self._is_live, range(len(self.space.parameters))))

    def _is_live(self, parameter: int) -> bool:
        """Say whether a corner of a parameter gave a different result from the base, or has not been run."""
        first, found = self.seeds[0], self.found
        base = found.get((self.space.base, first))
        return any((each, first) not in found or found[each, first] != base for each in self.space.corners[parameter])

    def simplify(self, search: _Search, best: Point, limit: int) -> Point:
        """Undo, one by one, the changes without which the point is no worse, so that only those that matter are
        left.
        """
        for parameter, own in enumerate(self.space.base):
            point = moved(best, parameter, own)
            if point == best:
                continue
            if self.is_stopped or self.runs + self.cost([point], self.seeds) > limit:
                break
            self.run([point], self.seeds)
            if self.mean(point, self.seeds, search) <= self.mean(best, self.seeds, search):
                best = point
        return best

    def _simpler(self, best: Point) -> list[Point]:
        """Return the points with one change fewer."""
        base = self.space.base
        return [moved(best, at, own) for at, own in enumerate(base) if best[at] != own]

    def complete(self) -> list[Point]:
        """Return the points that were run with all seeds of the search, the base first."""
        return [point for point in self._tried if all((point, seed) in self.found for seed in self.seeds)]

    def _source(self, point: Point) -> ConfigurationSource:
        if point not in self._sources:
            self._sources[point] = self.space.source(point, "tuned")
        return self._sources[point]


def tune(
    tuner: Tuner, objectives: Sequence[Objective], base_name: str, *, budget: int = 100, load: Load | None = None
) -> TuningResult:
    """Return the best configuration for one objective, or for two, with the front between these.

    `budget` is how many runs there may be, the check included; `load` is the tuner's, to say what the best gives up.
    Raises `ObjectiveError`, `TaskError`.
    """
    if not 1 <= len(objectives) <= 2:
        raise ObjectiveError("one objective, or two: a sum of several is one, as in cost:2,pending:1")
    base = tuner.space.base
    check_runs = 2 * len(tuner.fresh)
    if budget < check_runs + 2 * len(tuner.seeds):
        least = check_runs + 2 * len(tuner.seeds)
        raise ObjectiveError(f"a budget of {budget} runs is too small: {len(tuner.seeds)} seeds need {least} at least")
    tuner.run([base], tuner.seeds)
    if (base, tuner.seeds[0]) in tuner.found:
        for objective in objectives:
            objective.check(tuner.found[base, tuner.seeds[0]])
    best = _best(tuner, objectives, budget - check_runs)
    if not tuner.is_stopped:
        tuner.run([base, best], tuner.fresh)
    found = _result(tuner, objectives, base_name, best)
    weights = tuner.space.weights
    return msgspec.structs.replace(found, given_up=given_up(weights(base), weights(best), load))


def _best(tuner: Tuner, objectives: Sequence[Objective], limit: int) -> Point:
    """Search up to so many runs in all, and return the best point, without changes that do nothing."""
    mixes = MIXES if len(objectives) == 2 else (0.0,)
    for number, mix in enumerate(mixes):
        if tuner.is_stopped:
            break
        tuner.search(_Search(_score_of(objectives, mix), max(limit - tuner.runs, 0) // (len(mixes) - number)))
    final = _Search(_score_of(objectives, 0.5), 0)
    while True:
        best = tuner.simplify(final, tuner.best(final), limit)
        runs = tuner.runs
        tuner.climb(final, limit)  # with what simplifying has left
        if tuner.runs == runs:
            return best


def _score_of(objectives: Sequence[Objective], mix: float) -> Callable[[Figures, Figures], float]:
    """Return how points are compared: by the objective, or by a weighted sum of both, relative to the base."""

    def score(figures: Figures, base: Figures) -> float:
        unplaced = sum(max(0.0, figures.get(name, 0.0) - base.get(name, 0.0)) for name in UNPLACED)
        values = []
        for objective in objectives:
            own = objective.value(base, base)
            values.append((objective.value(figures, base) - own) / (abs(own) or 1.0))
        mixed = values[0] if len(values) == 1 else (1 - mix) * values[0] + mix * values[1]
        return mixed + 1e6 * unplaced

    return score


# -- what came of it -------------------------------------------------------------------------------------------------


def _told(objective: Objective, figures: Figures, base: Figures) -> float:
    """Return an objective as shown to people: a measure in its own unit and sign."""
    if objective.is_single:
        measure = objective.terms[0].measure
        return figures.get(measure, base.get(measure, 0.0))
    return objective.value(figures, base)


def _result(tuner: Tuner, objectives: Sequence[Objective], base_name: str, best: Point) -> TuningResult:
    base, found = tuner.space.base, tuner.found
    complete = tuner.complete()
    front = _front(tuner, objectives, complete)
    checked = [seed for seed in tuner.fresh if (base, seed) in found and (best, seed) in found]
    a, b = ([found[point, seed] for seed in checked] for point in (base, best))
    outcomes = tuple(_outcome_compared(objective, a, b) for objective in objectives)
    score = _score_of(objectives, 0.5)
    gains = [score(ours, theirs) for ours, theirs in zip(b, a, strict=True)]
    return TuningResult(
        objectives=tuple(objective.text for objective in objectives),
        base=base_name,
        runs=tuner.runs,
        tried=len({point for point, _ in found}),
        points=tuple(
            TunedPoint(
                changes=tuner.space.changes(point),
                outcomes=tuple(_outcome(tuner, objective, point) for objective in objectives),
                is_on_front=point in front,
            )
            for point in complete
        ),
        best=tuner.space.changes(best),
        document=tuner.space.document(best),
        check=compared([dict(each) for each in a], [dict(each) for each in b]),
        check_seeds=len(checked),
        outcomes=outcomes,
        is_better=best != base and bool(gains) and max(gains) < 0,
        is_complete=len(checked) == len(tuner.fresh),
    )


def _values(tuner: Tuner, objectives: Sequence[Objective], point: Point) -> tuple[float, ...]:
    """Return the objectives of a point; less is better."""
    pairs = [(tuner.found[point, seed], tuner.found[tuner.space.base, seed]) for seed in tuner.seeds]
    return tuple(statistics.fmean(each.value(ours, base) for ours, base in pairs) for each in objectives)


def _front(tuner: Tuner, objectives: Sequence[Objective], complete: Sequence[Point]) -> frozenset[Point]:
    """Return the points that none beats; of those that come to the same, the one with the fewest changes."""
    points = sorted(complete, key=lambda point: len(tuner.space.changes(point)))
    values: dict[tuple[float, ...], Point] = {}
    for point in points:
        if not _leaves_more(tuner, point):
            values.setdefault(_values(tuner, objectives, point), point)
    return frozenset(point for own, point in values.items() if not any(_beats(other, own) for other in values))


def _leaves_more(tuner: Tuner, point: Point) -> bool:
    """Say whether a point leaves more pods without a node than the base, with any of the seeds."""
    pairs = ((tuner.found[point, seed], tuner.found[tuner.space.base, seed]) for seed in tuner.seeds)
    return any(ours.get(name, 0) > base.get(name, 0) for ours, base in pairs for name in UNPLACED)


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Say whether one point is at least as good in everything and better in something."""
    pairs = list(zip(one, other, strict=True))
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def _outcome(tuner: Tuner, objective: Objective, point: Point) -> ObjectiveOutcome:
    base = tuner.space.base
    values = [_told(objective, tuner.found[point, seed], tuner.found[base, seed]) for seed in tuner.seeds]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return ObjectiveOutcome(objective.text, statistics.fmean(values), deviation)


def _outcome_compared(objective: Objective, a: Sequence[Figures], b: Sequence[Figures]) -> FigureCompared:
    """Compare base and best by an objective: the measure itself, or the sum."""
    name, way = objective.text, LOWER
    if objective.is_single:
        name, way = objective.terms[0].measure, objective.terms[0].way
    mine = [_told(objective, each, each) for each in a]
    theirs = [_told(objective, ours, base) for base, ours in zip(a, b, strict=True)]
    return compared_figure(name, mine, theirs, way)
