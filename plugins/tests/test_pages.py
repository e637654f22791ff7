"""The pages about guests: what they configure is understood, and all args are in their tables."""

import re
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from berth.testing import VirtualCluster
from berth_plugins.model_score import ModelScore

PAGES = sorted((Path(__file__).parents[2] / "docs" / "plugins").glob("*.md"))
OURS = {
    "budget-safe-preemption", "fair-shares", "gpu-fragmentation", "model-score", "pools-in-order", "workload-limit",
}  # fmt: skip


def of_the_page(path):
    """The plugin that a page is about: the name is its heading's, the module that of the file."""
    name = path.read_text().splitlines()[0].removeprefix("# ")
    return name, getattr(import_module(f"berth_plugins.{path.stem.replace('-', '_')}"), name)


def test_there_is_a_page_for_each():
    assert {path.stem for path in PAGES} >= OURS


@pytest.mark.parametrize("path", [path for path in PAGES if path.stem in OURS], ids=lambda path: path.stem)
def test_what_a_page_configures_is_understood_and_its_args_are_told(path, monkeypatch):
    monkeypatch.setattr(ModelScore, "open", lambda path, width: None)
    name, plugin = of_the_page(path)
    (document,) = re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    cluster = VirtualCluster(plugins={name: plugin}, config=yaml.safe_load(document))
    assert name in {each.name for each in cluster.core.profiles["default-scheduler"].plugins}
    for field in plugin.args_type.__struct_encode_fields__:
        assert f"`{field}`" in path.read_text() or f"`{field}[]`" in path.read_text(), f"{field} is not told of"
