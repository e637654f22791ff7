"""Every recorded decision, field for field: with what is remembered; in `make test-all` with nothing, or little."""

import pytest

from berth.plugins.registry import in_tree_registry
from berth.state import views
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
    replay_all(theme, memos=memos)


@pytest.mark.long
@pytest.mark.parametrize("theme", THEMES)
def test_so_do_decisions_where_all_that_is_remembered_is_given_up_all_the_time(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_BYTES", 0)
    replay_all(theme, memos=True)


def replay_all(theme: str, *, memos: bool) -> None:
    registry = in_tree_registry()
    wrong, compared = [], 0
    for case in cases(theme):
        for recorded, ours in zip(case["decisions"], replay(case, registry, memos=memos), strict=True):
            compared += 1
            wrong += [f"{case['name']} {recorded['pod']}: {text}" for text in differences(recorded, ours)]
    assert compared >= 40, f"{theme}: only {compared} decisions were compared"
    assert not wrong, f"{len(wrong)} differences in {theme}, the first: " + "\n".join(wrong[:5])
