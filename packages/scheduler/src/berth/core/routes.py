"""Which profile schedules a pod, where canaries take a part of another profile's pods.

`Intake` asks it once for each object of a pod, and notes the answer in the pod (`PodInfo.profile_name`). The answer
follows from the pod alone, so every scheduler, replay and simulation of one configuration gives the same. Members of a
pod group go together: their share is drawn by the group.
"""

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from berth.api.selectors import Selector, compile_selector
from berth.config.types import KubeSchedulerProfile
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo


class _Share(NamedTuple):
    """Pods from one point of the hundred per cent up to, not including, another."""

    name: str
    begins: float
    ends: float


class Routes:
    """The canaries of each profile."""

    __slots__ = ("_selecting", "_shares")

    def __init__(self, profiles: Iterable[KubeSchedulerProfile]) -> None:
        self._selecting: dict[str, list[tuple[str, Selector]]] = {}
        self._shares: dict[str, list[_Share]] = {}
        for profile in profiles:
            canary = profile.canary
            if canary is None:
                continue
            if canary.selector is not None:
                wanted = compile_selector(canary.selector)
                self._selecting.setdefault(canary.of, []).append((profile.scheduler_name, wanted))
            elif canary.percentage is not None:
                shares = self._shares.setdefault(canary.of, [])
                begins = shares[-1].ends if shares else 0.0
                shares.append(_Share(profile.scheduler_name, begins, begins + canary.percentage))

    def __bool__(self) -> bool:
        """Say whether there are any canaries."""
        return bool(self._selecting or self._shares)

    def name_for(self, pod: PodInfo) -> str:
        """Return the name of the profile that schedules a pod: selectors come first, in the order of the document."""
        name = pod.spec.scheduler_name
        for canary, selector in self._selecting.get(name, ()):
            if selector.matches(pod.labels):
                return canary
        shares = self._shares.get(name)
        if shares is not None:
            group = group_of(pod)
            drawn = crc32((pod.uid if group is None else f"{group.namespace}/{group.name}").encode()) % 10_000 / 100
            return next((share.name for share in shares if share.begins <= drawn < share.ends), name)
        return name
