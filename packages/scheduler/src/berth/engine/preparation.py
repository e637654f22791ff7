"""Skips calls of PreFilter and PreScore whose answers cannot have changed.

Many plugins answer from the pod's shape alone (they promise `pre_filter_is_pure`, `pre_score_is_pure`), and most of
these skip. They are asked once per shape. Others skip most pods until some object exists (`pre_filter_version`,
`pre_score_version`): they are asked again when that version changes. All others are asked for every pod.

A plugin that never looks at what pods request, or at their labels (`ignores`), is asked once for all pods that differ
in nothing else: its answer is kept for the family of shapes.

Only skips and silent successes are kept, never a rejection or a narrowing, whose reasons belong to one attempt. A
plugin that is left out here would have written nothing to the CycleState, so leaving it out cannot be noticed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from berth.framework.interface import Plugin, PreFilterResult
from berth.framework.loaded import LoadedPlugin
from berth.framework.promises import Purity
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo

Answer = PreFilterResult | Status | None
Version = Callable[[PodInfo], Hashable | None]

PluginT = TypeVar("PluginT", bound=Plugin)
"""PreFilter plugins, or PreScore plugins."""


class Promised(NamedTuple):
    """What a plugin promises of its PreFilter, or of its PreScore."""

    is_pure: Purity
    version: Version | None
    ignores: frozenset[str]

    @classmethod
    def of_pre_filter(cls, plugin: LoadedPlugin) -> "Promised":
        """Return what a plugin promises of PreFilter."""
        promises, versioned = plugin.promises, plugin.pre_filter_version
        version = None if versioned is None else versioned.pre_filter_version
        return cls(promises.pre_filter_is_pure, version, promises.ignores)

    @classmethod
    def of_pre_score(cls, plugin: LoadedPlugin) -> "Promised":
        """Return what a plugin promises of PreScore."""
        promises, versioned = plugin.promises, plugin.pre_score_version
        version = None if versioned is None else versioned.pre_score_version
        return cls(promises.pre_score_is_pure, version, promises.ignores)

    def is_pure_of(self, pod: PodInfo) -> bool:
        """Say whether the answer for this pod holds for all of its shape."""
        return self.is_pure(pod) if callable(self.is_pure) else self.is_pure


class Preparation(Generic[PluginT]):
    """The plugins that skip pods of a shape or a family, and those that have to be asked, in the profile's order."""

    __slots__ = (
        "_checked_at",
        "_ignored",
        "_promised",
        "_skipped_for_good",
        "_skipping",
        "_unsettled",
        "skipped",
        "to_ask",
    )

    def __init__(
        self,
        plugins: Sequence[PluginT],
        promised: Mapping[str, Promised],
        pod: PodInfo,
        ask: Callable[[PluginT], Answer],
        ignored: frozenset[str],
    ) -> None:
        """Ask the pure plugins now; one that rejects or narrows will be asked in its turn.

        `promised` is what each plugin promises, by name. The result holds for all pods that differ from this one only
        in what is `ignored`.
        """
        self._promised = promised
        self._ignored = ignored
        skipped: set[str] = set()
        unsettled: list[PluginT] = []
        for plugin in plugins:
            is_pure = self._may_settle(plugin) and promised[plugin.name].is_pure_of(pod)
            answer = ask(plugin) if is_pure else None
            # It succeeds without a word, so it takes part in Filter or Score, but is not asked here again.
            if answer is None and is_pure:
                continue
            if isinstance(answer, Status) and answer.code is Code.SKIP:
                skipped.add(plugin.name)
            # Not pure, or it rejects or narrows: then it is asked in its turn for each pod, since the first rejection
            # counts.
            elif not isinstance(answer, Status) or not is_success(answer):
                unsettled.append(plugin)
        self._skipped_for_good = frozenset(skipped)
        self._unsettled = tuple(unsettled)
        self._skipping: dict[str, tuple[Version, Hashable]] = {}
        """The plugins that skip for now, each with its version function and the version at which it skipped."""
        self._checked_at = -1
        self._settle()

    def for_pod(self, pod: PodInfo, at: int) -> "Preparation[PluginT]":
        """Bring it up to date for one more pod of the shape. While `at` stays, no plugin's version has moved."""
        if at == self._checked_at:
            return self
        self._checked_at = at
        stale = [name for name, (version, seen) in self._skipping.items() if version(pod) != seen]
        if stale:
            for name in stale:
                del self._skipping[name]
            self._settle()
        return self

    def asked_at(self, at: int) -> tuple[PluginT, ...] | None:
        """Return the plugins to ask if no plugin's version can have moved; None if one may have."""
        return self.to_ask if self._checked_at == at else None

    def note_skip(self, plugin: PluginT, pod: PodInfo) -> None:
        """Note that a plugin that was asked has skipped."""
        if not self._may_settle(plugin):
            return
        version = self._promised[plugin.name].version
        seen = version(pod) if version is not None else None
        if version is not None and seen is not None:
            self._skipping[plugin.name] = version, seen
            self._settle()

    def _may_settle(self, plugin: PluginT) -> bool:
        return not self._ignored or self._ignored <= self._promised[plugin.name].ignores

    def _settle(self) -> None:
        self.to_ask = tuple([plugin for plugin in self._unsettled if plugin.name not in self._skipping])
        self.skipped = self._skipped_for_good.union(self._skipping)
