"""What shadows would have decided differently, and the health of plugins, as shown to people: values ready for JSON.

Made from a core between two cycles; served under `/debug/shadows` and `/debug/plugins`. `berth explain --shadow` and
`/readyz` show parts of it.
"""

import msgspec

from berth.core.core import Core
from berth.cycle.shadow import ShadowProfile
from berth.decisions.by_plugins import figures_of
from berth.decisions.waits import WallTime
from berth.framework.health import HealthState, PluginHealth


class ShadowCause(msgspec.Struct, frozen=True, rename="camel"):
    """How often a plugin made a difference of one kind."""

    kind: str
    plugin: str
    decisions: int


class ShadowDifference(msgspec.Struct, frozen=True, rename="camel"):
    """One decision that a shadow would have made differently."""

    pod: str
    uid: str
    time: str
    kind: str
    node: str | None
    shadow_node: str | None
    plugins: tuple[str, ...]
    why: str


class ShadowReport(msgspec.Struct, frozen=True, rename="camel"):
    """One shadow, since the configuration came into force."""

    shadow: str
    of: str
    percentage: float
    decisions: int
    """How many attempts it has decided about."""
    kinds: dict[str, int]
    causes: tuple[ShadowCause, ...]
    """The causes of the differences, most frequent first."""
    skipped: dict[str, int]
    differences: tuple[ShadowDifference, ...]
    """The latest differences, newest first."""


class PluginReport(msgspec.Struct, frozen=True, rename="camel"):
    """The health of an optional plugin."""

    plugin: str
    profile: str
    state: HealthState
    calls: int
    failures: int
    times_out: int
    last_failure: str
    until: str | None
    """Until when it is out."""


class FigureReport(msgspec.Struct, frozen=True, rename="camel"):
    """A number that a plugin reports about its state (`figures`)."""

    profile: str
    plugin: str
    name: str
    value: float
    labels: dict[str, str]


def figure_reports(core: Core) -> list[FigureReport]:
    """Return what plugins report about their state, such as quotas in use."""
    return [
        FigureReport(each.profile, each.plugin, each.figure.name, float(each.figure.value), dict(each.figure.labels))
        for each in figures_of(core.profiles.values())
    ]


def shadow_reports(core: Core, wall_time: WallTime, pod: str = "") -> list[ShadowReport]:
    """Return what all shadows would have decided differently; with a `pod`, only the differences about that one."""
    return [_shadow_report(shadow, wall_time, pod) for shadow in core.shadows]


def _shadow_report(shadow: ShadowProfile, wall_time: WallTime, pod: str) -> ShadowReport:
    differences = (each for each in reversed(shadow.differences) if pod in ("", each.found.pod))
    return ShadowReport(
        shadow.name,
        shadow.of,
        shadow.percentage,
        shadow.kinds.total(),
        dict(sorted(shadow.kinds.items())),
        tuple(ShadowCause(kind, plugin, count) for (kind, plugin), count in shadow.causes.most_common()),
        dict(sorted(shadow.skipped.items())),
        tuple(
            ShadowDifference(found.pod, uid, wall_time(at), found.kind, found.a, found.b, found.plugins, found.note)
            for found, uid, at in differences
        ),
    )


def plugin_reports(core: Core, wall_time: WallTime) -> list[PluginReport]:
    """Return the health of the optional plugins."""
    return [
        PluginReport(
            each.name,
            each.profile,
            each.state,
            each.worst.calls,
            each.worst.failures,
            each.times_out,
            each.last_failure,
            wall_time(each.until) if each.state == "out" else None,
        )
        for each in core.health
    ]


def told_out(plugins: list[PluginHealth]) -> str:
    """Say which plugins are left out, in one line; empty if none is."""
    return "; ".join(
        f"going without plugin {each.name} of profile {each.profile}: {each.last_failure}"
        for each in plugins
        if each.state == "out"
    )
