"""The parts of a configuration that are tuned: the weights of its score plugins, and how NodeResourcesFit scores.

A point is a choice for each parameter; `SettingSpace.document` makes a configuration of it, which differs from the
base in nothing else.
"""

import copy
import math
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from berth.api.near_names import nearest
from berth.api.user_error import UserError
from berth.config.types import SchedulerConfiguration
from berth.config.v1 import API_VERSION, KIND
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.simulation.site import Site
from berth_workbench.snapshot.snapshot import EMPTY

GRID: Final = (0, 1, 2, 3, 5, 10, 20, 50)
"""The weights that are tried; 0 takes the plugin out of scoring. Only their ratios matter, so each is about twice the
one before."""
FIT: Final = "NodeResourcesFit"
STRATEGIES: Final = ("LeastAllocated", "MostAllocated")
STRATEGY: Final = f"{FIT}.scoringStrategy"

Point = tuple[int, ...]
"""For each parameter the index of its value."""


class SpaceError(UserError, ValueError):
    """There is nothing to tune; the message is one line that says why."""


class SettingParameter(msgspec.Struct, frozen=True):
    """Something that is set: a plugin's weight, or a strategy."""

    name: str
    values: tuple[int | str, ...]
    base: int
    """The index of the base configuration's value."""


def moved(point: Point, parameter: int, value: int) -> Point:
    """Return a point with another value of one parameter, by index."""
    return (*point[:parameter], value, *point[parameter + 1 :])


class SettingSpace:
    """The parameters of a base configuration's first profile."""

    __slots__ = ("_base", "_document", "_weights", "corners", "parameters")

    def __init__(self, base: ConfigurationSource, plugins: Sequence[str] = ()) -> None:
        """Find what can be tuned; `plugins` are those to be tuned, all that score by default.

        Raises `ConfigError`, `SpaceError`.
        """
        loaded = base.load()
        if loaded.config.generation != "v1.36":
            raise SpaceError(f"{base.name}: only {API_VERSION} can be tuned, since that is what is written")
        core = Site.of(EMPTY, loaded).cluster.core
        weights = {each.name: each.weight for each in next(iter(core.profiles.values())).scorers}
        if unknown := [name for name in plugins if name not in weights]:
            hint = nearest(unknown[0], weights) or f"; it does by {', '.join(weights)}"
            raise SpaceError(f"--plugins {unknown[0]}: {base.name} does not score by it{hint}")
        tuned = [name for name in weights if not plugins or name in plugins]
        self._base = base
        self._weights = weights
        self._document = (
            msgspec.json.decode(base.document) if base.document else {"apiVersion": API_VERSION, "kind": KIND}
        )
        self.parameters = tuple(self._parameters(tuned, weights, loaded.config))
        self.corners = self._corners()
        """By parameter, the points at which to begin."""

    def _parameters(
        self, tuned: Sequence[str], weights: Mapping[str, int], config: SchedulerConfiguration
    ) -> Iterator[SettingParameter]:
        for name in tuned:
            grid = tuple(sorted({*GRID, weights[name]}))
            yield SettingParameter(name, grid, grid.index(weights[name]))
        if FIT in tuned:
            args = config.profiles[0].plugin_config.get(FIT) or {}
            kind = str((args.get("scoringStrategy") or {}).get("type") or STRATEGIES[0])
            if kind in STRATEGIES:  # another one has parameters of its own that these do not take
                yield SettingParameter(STRATEGY, STRATEGIES, STRATEGIES.index(kind))

    @property
    def base(self) -> Point:
        """The point of the base configuration."""
        return tuple(each.base for each in self.parameters)

    def weights(self, point: Point) -> dict[str, int]:
        """Return the weights of all plugins that score, tuned or not."""
        changed = {name: value for name, value in self.changes(point).items() if isinstance(value, int)}
        return self._weights | changed

    def random_point(self, rng: random.Random, near: Point | None = None, among: Sequence[int] | None = None) -> Point:
        """Draw a point: one or more of some parameters are random, the others as in the nearby point."""
        point = list(self.base if near is None else near)
        order = range(len(point)) if among is None else among
        for parameter in rng.sample(order, rng.randint(1, len(order))):
            point[parameter] = rng.randrange(len(self.parameters[parameter].values))
        return tuple(point)

    def essence(self, point: Point) -> Hashable:
        """Return what determines a point's decisions: the ratios of the weights and, if it scores at all, the
        strategy.
        """
        weights = self.weights(point)
        divisor = math.gcd(*weights.values()) or 1
        strategy = self.changes(point).get(STRATEGY) if weights.get(FIT) else None
        return strategy, *(weight // divisor for weight in weights.values())

    def _corners(self) -> dict[int, tuple[Point, ...]]:
        """Return the points that people try first, by the parameter that they are about, the likeliest first.

        They are the other strategy, and each plugin as strong as can be with the others as they are.
        """
        names = [each.name for each in self.parameters]
        found = {}
        for number in sorted(range(len(names)), key=lambda at: (names[at] != STRATEGY, names[at] != FIT)):
            strong = moved(self.base, number, len(self.parameters[number].values) - 1)
            points = {STRATEGY: self._strategies(self.base), FIT: self._strategies(strong)}.get(
                names[number], (strong,)
            )
            found[number] = tuple(point for point in points if point != self.base)
        return found

    def far_corners(self, among: Iterable[int]) -> Iterator[Point]:
        """Yield the points at which one of these plugins is the only tuned one that scores, and at which it does not
        score.
        """
        plugins = [number for number in among if self.parameters[number].name != STRATEGY]
        for number in plugins:
            last = len(self.parameters[number].values) - 1
            alone = tuple(
                own if each.name == STRATEGY else last * (at == number)
                for at, (each, own) in enumerate(zip(self.parameters, self.base, strict=True))
            )
            yield from self._strategies(alone) if self.parameters[number].name == FIT else (alone,)
        yield from (moved(self.base, number, 0) for number in plugins)

    def _strategies(self, point: Point) -> Iterator[Point]:
        """Yield a point with each strategy."""
        at = next((at for at, each in enumerate(self.parameters) if each.name == STRATEGY), None)
        values = (None,) if at is None else range(len(self.parameters[at].values))
        return (point if at is None or value is None else moved(point, at, value) for value in values)

    def neighbours(self, point: Point, parameter: int) -> list[Point]:
        """Return the points one step away along a parameter."""
        found = []
        for step in (1, -1):
            value = point[parameter] + step
            if 0 <= value < len(self.parameters[parameter].values):
                found.append(moved(point, parameter, value))
        return found

    def changes(self, point: Point) -> dict[str, int | str]:
        """Return what differs from the base: parameter to value."""
        pairs = zip(self.parameters, point, strict=True)
        return {each.name: each.values[index] for each, index in pairs if index != each.base}

    def document(self, point: Point) -> dict[str, Any]:
        """Return the configuration of a point, as a document."""
        document: dict[str, Any] = copy.deepcopy(self._document)
        profiles = document.get("profiles") or [{}]
        document["profiles"] = profiles
        for name, value in self.changes(point).items():
            if name == STRATEGY:
                _set_strategy(profiles[0], str(value))
            else:
                _set_weight(profiles[0], name, int(value))
        return document

    def source(self, point: Point, name: str) -> ConfigurationSource:
        """Return the configuration of a point; the base's own is the base, to the letter."""
        if point == self.base:
            return msgspec.structs.replace(self._base, name=name)
        base = self._base
        return ConfigurationSource.of_document(name, self.document(point), base.plugins, base.feature_gates)


def _set_weight(profile: dict[str, Any], plugin: str, weight: int) -> None:
    """Have a profile score with this weight, or not at all with 0; at other points the plugin stays as it is."""
    plugins = profile["plugins"] = profile.get("plugins") or {}
    score = plugins["score"] = plugins.get("score") or {}
    enabled, disabled = (
        [each for each in score.get(key) or [] if each.get("name") != plugin] for key in ("enabled", "disabled")
    )
    if weight:
        enabled.append({"name": plugin, "weight": weight})
    elif not any(each.get("name") == "*" for each in disabled):
        disabled.append({"name": plugin})
    plugins["score"] = {key: listed for key, listed in (("enabled", enabled), ("disabled", disabled)) if listed}


def _set_strategy(profile: dict[str, Any], kind: str) -> None:
    configs = profile["pluginConfig"] = profile.get("pluginConfig") or []
    found = next((each for each in configs if each.get("name") == FIT), None)
    if found is None:
        found = {"name": FIT, "args": {}}
        configs.append(found)
    args = found["args"] = found.get("args") or {}
    args["scoringStrategy"] = {**(args.get("scoringStrategy") or {}), "type": kind}
