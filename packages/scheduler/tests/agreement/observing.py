"""What tests of observers are made of: an observer that is told of a small cluster, event by event."""

import random
from typing import Any

import msgspec

from berth.agreement.observer import Lookahead, Observing, ObservingCore
from berth.agreement.results import JudgedFailure, Judgement
from berth.agreement.settings import build_observer
from berth.api.node import Node
from berth.api.pod import Pod
from berth.config.load import load_config
from berth.core.builders import ObjectBuilder, PodBuilder
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.plugins.registry import in_tree_registry

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Bystander:
    """An observer and what it was told; each event has a revision of its own, and a millisecond."""

    def __init__(
        self, *objects: ObjectBuilder, config: dict[str, Any] | None = None, ahead: int = 8, **more: Any
    ) -> None:
        self.judged: list[Judgement] = []
        self.failures: list[JudgedFailure] = []
        observing = Observing(
            more.pop("lookahead", Lookahead(ahead)),
            keeps_totals=True,
            on_judged=self.judged.append,
            on_failure=self.failures.append,
            **more,
        )
        self.core: ObservingCore = build_observer(
            load_config({**CONFIG, **(config or {})}),
            in_tree_registry(),
            CoreOptions(rng=random.Random(0)),
            observing=observing,
        )
        self.revision = 0
        for each in objects:
            self.put(each)

    def tell(self, type_: Any, obj: Any) -> None:
        """Tell the observer of an object."""
        self.revision += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.revision))
        now = self.revision / 1000
        self.core.handle(ObjectEvent(type_, type(obj).__name__, msgspec.structs.replace(obj, metadata=metadata)), now)
        while self.core.has_work:
            self.core.step(now)

    def put(self, builder: ObjectBuilder) -> None:
        """Tell of an object that has come or changed."""
        self.tell("ADDED", builder.build())  # type: ignore[attr-defined]

    def bind(self, builder: PodBuilder, node: str) -> None:
        """Tell that somebody has bound a pod."""
        self.tell("MODIFIED", builder.copy().node(node).build())

    def delete(self, obj: Pod | Node) -> None:
        """Tell that an object is gone."""
        self.tell("DELETED", obj)

    def pass_revisions(self, count: int = 10) -> None:
        """Let other things be written."""
        self.revision += count

    def finish(self) -> None:
        """Have all judged that is held back."""
        self.core.finish()

    def results(self) -> dict[str, str]:
        """The result of each pod by its name."""
        self.finish()
        return {each.decision.pod.partition("/")[2]: each.decision.result for each in self.judged}
