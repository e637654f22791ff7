"""Every recorded decision, field for field: with what is remembered, and in `make test-all` with nothing, too."""

import pytest

from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay
from tests.conformance.records import cases, differences
from tests.effort import WITH_AND_WITHOUT_MEMOS

TODAY = ("resources", "taints", "node-affinity", "ports", "images", "pod-affinity", "spread", "default-spread",
         "resize", "configured", "preemption", "mixed", "volumes", "attachments", "dra", "devices")  # fmt: skip
V1_20 = ("avoid", "cloud-limits", "default-spread", "policy", "provider", "selector-spread")

THEMES = [*(f"v1.36/{theme}" for theme in TODAY), *(f"v1.20/{theme}" for theme in V1_20), "sampling/v1.36"]


@WITH_AND_WITHOUT_MEMOS
@pytest.mark.parametrize("theme", THEMES)
def test_decisions_equal_the_recorded_ones(theme: str, memos: bool) -> None:
    registry = in_tree_registry()
    wrong, compared = [], 0
    for case in cases(theme):
        for recorded, ours in zip(case["decisions"], replay(case, registry, memos=memos), strict=True):
            compared += 1
            wrong += [f"{case['name']} {recorded['pod']}: {text}" for text in differences(recorded, ours)]
    assert compared >= 40, f"{theme}: only {compared} decisions were compared"
    assert not wrong, f"{len(wrong)} differences in {theme}, the first: " + "\n".join(wrong[:5])
