"""NodeResourcesFit of v1.20: Filter only; preemption may always help; a pod that requests one resource is held to all.

For a pod with any request, CPU, memory and storage are checked even if it requests none of them, so an overcommitted
node rejects it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, final

import msgspec

from berth.config.types import ExtensionPoint
from berth.framework.handle import Handle
from berth.framework.promises import Promises
from berth.framework.status import Code, Status
from berth.plugins.resources.fit import ResourceNeed, lacking_status, needs_of
from berth.plugins.resources.names import PLAIN_RESOURCES, is_scalar
from berth.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs


class LegacyNodeResourcesFitArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Extended resources that are not looked at, by name and by the part before the slash."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()

    def todays(self) -> NodeResourcesFitArgs:
        """Return the args as today's plugin takes them."""
        return NodeResourcesFitArgs(self.ignored_resources, self.ignored_resource_groups)

    def validate(self, path: str) -> Iterator[str]:
        """Say what is wrong, one sentence each."""
        return self.todays().validate(path)


@final
class LegacyNodeResourcesFit(NodeResourcesFit):
    """PreFilter, Filter."""

    name: ClassVar[str] = "NodeResourcesFit"
    args_type: ClassVar[type[msgspec.Struct]] = LegacyNodeResourcesFitArgs  # type: ignore[assignment]
    promises: ClassVar[Promises] = msgspec.structs.replace(
        NodeResourcesFit.promises,
        points=frozenset({ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER}),
    )

    __slots__ = ()

    def __init__(self, args: LegacyNodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args.todays(), handle)

    def _needs_of(self, requests: Mapping[str, int]) -> tuple[ResourceNeed, ...]:
        scalars = {name for name in requests if name not in PLAIN_RESOURCES and is_scalar(name)}
        if not scalars and not any(requests.get(name) for name in PLAIN_RESOURCES):
            return ()
        plain = tuple(ResourceNeed(name, requests.get(name, 0)) for name in PLAIN_RESOURCES)
        counted = {name: max(requests[name], 0) for name in scalars}
        asked = {need.resource for need in needs_of(counted, self._ignored)}
        nothing_of = (ResourceNeed(name, 0) for name in sorted(scalars - asked) if not counted[name])
        return (*plain, *(ResourceNeed(name, counted[name]) for name in sorted(asked)), *nothing_of)

    def _describe(self, needs: Sequence[ResourceNeed], code: int) -> Status:
        return lacking_status(needs, code, Code.UNSCHEDULABLE)
