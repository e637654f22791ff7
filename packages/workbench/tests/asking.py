"""Asks questions as the command line and the page do: a snapshot, what is done to it first, and who decides."""

from collections.abc import Callable

from berth.framework.setup import Setup
from berth.plugins.registry import full_registry
from berth_workbench.planning.autoscale import autoscale_of as _autoscale_of
from berth_workbench.planning.capacity import capacity_after as _capacity_after
from berth_workbench.planning.rebalance.rebalance import rebalance as _rebalance
from berth_workbench.planning.survival import survival
from berth_workbench.planning.upgrade.search import plan_upgrade as _plan_upgrade
from berth_workbench.planning.waiting import waits_of as _waits_of
from berth_workbench.planning.whatif import what_if as _what_if
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import WorkWatch


class WatchUntil(WorkWatch):
    """Asks for an end as soon as `is_enough` says so, which is asked with each number of steps that is told."""

    def __init__(self, is_enough: Callable[[int], bool]) -> None:
        super().__init__()
        self._is_enough = is_enough

    def advance(self, steps: int = 1) -> None:
        super().advance(steps)
        if self._is_enough(steps):
            self.stop()


def stopped(**more):
    """Return a watch that was asked for an end before anything began."""
    watch = WorkWatch(**more)
    watch.stop()
    return watch


def setup_of(config=None, registry=None):
    """Return what decides; None for the default configuration."""
    if config is None:
        return None
    return Setup(config, full_registry() if registry is None else registry)


def situation(snapshot, steps=(), *, config=None, registry=None, seed=0, namespace="default"):
    """Return what a question is asked about."""
    return Situation(snapshot, setup_of(config, registry), tuple(steps), namespace, seed)


def _apart(options):
    about = {name: options.pop(name) for name in ("config", "registry", "seed", "namespace") if name in options}
    return about, options


def survival_of(snapshot, steps=(), **options):
    about, options = _apart(options)
    site = situation(snapshot, steps, **about).site(options.get("watch") or WorkWatch())
    return survival(site, **options)


def what_if(snapshot, steps=(), **options):
    about, options = _apart(options)
    return _what_if(situation(snapshot, steps, **about), **options)


def capacity_after(snapshot, documents, steps=(), **options):
    about, options = _apart(options)
    return _capacity_after(situation(snapshot, steps, **about), documents, **options)


def waits_of(snapshot, names=(), steps=(), **options):
    about, options = _apart(options)
    return _waits_of(situation(snapshot, steps, **about), names, **options)


def autoscale_of(snapshot, specs, steps=(), **options):
    about, options = _apart(options)
    return _autoscale_of(situation(snapshot, steps, **about), specs, **options)


def plan_upgrade(snapshot, request, **options):
    about, options = _apart(options)
    return _plan_upgrade(situation(snapshot, **about), request, **options)


def rebalance(snapshot, request, **options):
    about, options = _apart(options)
    return _rebalance(situation(snapshot, **about), request, **options)
