"""Every recorded decision of kubernetes-sigs/scheduler-plugins, field for field, by the guests of `plugins/`.

Each case is decided with memos on and off, and once more by the plain forms of the guests alone.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from berth.framework.preemption import VictimRules
from berth.framework.registry import Registry
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import told
from tests.conformance.records import cases, differences
from tests.guests import guests, registry_with_guests

THEMES = ("small", "load", "gang", "quota", "network", "numa")
ORDERS = ("queueOrder", "less", "queueOrderAfter")
FASTER_FORMS = ("filter_columns", "filter_row", "score_columns", "score_row", "is_affected_by")
QUANTITY = re.compile(r"\{\{[^{}]*\} \{[^{}]*\} [^{}]*\}")
"""What Go prints of a quantity's insides: only the names before it matter."""


def wrong_in(case: dict[str, Any], registry: Registry, *, memos: bool = True) -> Iterator[str]:
    """Yield what differs."""
    ours = told(case, registry, memos=memos)
    for key in ORDERS:
        if case.get(key) != ours.get(key):
            yield f"{case['name']}: {key}: recorded {case.get(key)!r}, ours {ours.get(key)!r}"
    for recorded, decided in zip(case["decisions"], ours["steps"], strict=True):
        yield from (f"{case['name']} {recorded['pod']}: {text}" for text in differences(bare(recorded), bare(decided)))


def bare(value: Any) -> Any:
    """Return a decision without the insides of quantities, and without what is empty: absent means the same."""
    if isinstance(value, dict):
        return {key: bare(each) for key, each in value.items() if each not in ([], {}, "")}
    if isinstance(value, list):
        return [bare(each) for each in value]
    return QUANTITY.sub("…", value) if isinstance(value, str) else value


def plain(registry: Registry) -> Registry:
    """Return the guests with none but the plain forms, and no promises; what has no plain form stays."""

    def only_plain(name: str) -> type:
        base = registry.factory(name)
        bare = {
            key: value
            for each in reversed(base.mro())
            if each.__module__.startswith("berth_plugins.")
            for key, value in vars(each).items()
            if key not in (*FASTER_FORMS, "promises", "signature", "__dict__", "__weakref__", "__orig_bases__")
        }
        return type(name, (VictimRules,) if VictimRules in base.mro() else (), bare)

    return Registry({name: only_plain(name) for name in registry.names}, "a test")


@pytest.mark.parametrize("form", ["memos", "no-memos", "plain"])
@pytest.mark.parametrize("theme", THEMES)
def test_decisions_equal_the_recorded_ones(theme: str, form: str) -> None:
    found = registry_with_guests() if form != "plain" else in_tree_registry().merge(plain(guests()))
    wrong, compared = [], 0
    for case in cases(f"plugins/{theme}"):
        compared += len(case["decisions"])
        wrong += list(wrong_in(case, found, memos=form == "memos"))
    assert compared >= 500, f"{theme}: only {compared} decisions were compared"
    assert not wrong, f"{len(wrong)} differences in {theme}, the first: " + "\n".join(wrong[:5])
