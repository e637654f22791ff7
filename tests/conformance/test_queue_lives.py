"""Every recorded life of a queue, step for step: with what is remembered, and in `make test-all` with nothing, too."""

import pytest

from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.queue_lives import replay_life
from tests.conformance.records import cases
from tests.effort import WITH_AND_WITHOUT_MEMOS


@WITH_AND_WITHOUT_MEMOS
@pytest.mark.parametrize(("path", "steps"), [("queue/v1.36", 10_767), ("queue/v1.20", 7_630)])
def test_queues_live_as_the_recorded_ones(path: str, steps: int, memos: bool) -> None:
    registry = in_tree_registry()
    wrong, compared = [], 0
    for life in cases(path):
        ours = replay_life(life, registry, memos=memos)
        for step, recorded, state in zip(life["queue"], life["states"], ours, strict=True):
            compared += 1
            if recorded != state:
                wrong.append(f"{life['name']} at {step['at']}: {step}\nrecorded {recorded}\nours     {state}")
    assert compared == steps
    assert not wrong, f"{len(wrong)} differences in {path}, the first: " + "\n".join(wrong[:3])
