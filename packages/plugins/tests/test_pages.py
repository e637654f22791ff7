"""The pages about guests: what they configure is understood, their args are in tables, and their examples are true.

An example is a block of manifests, sometimes one of what a load watcher says, and one that tells what becomes of pods.
"""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from berth.testing import VirtualCluster, make_node, make_object, make_pod
from berth_plugins.model_score import ModelScore

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "packages/plugins/pyproject.toml").read_text())["project"]
GUESTS = PROJECT["entry-points"]["berth.plugins"]
NO_GUEST = {"README", "controllers", "from-go-to-python"}
PAGES = {path: path.read_text() for path in sorted((ROOT / "docs/plugins").glob("*.md")) if path.stem not in NO_GUEST}


def guest_of(text):
    """The plugin that a page is about, which is the first word of its heading."""
    name = re.match(r"# (\w+)", text)[1]
    module, _, attribute = GUESTS[name].partition(":")
    return name, getattr(import_module(module), attribute)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def cluster_of(text):
    """A cluster with what the page configures."""
    name, plugin = guest_of(text)
    return VirtualCluster(plugins={name: plugin}, config=yaml.safe_load(blocks(text, "yaml")[0]))


def test_there_is_a_page_for_each():
    assert {guest_of(text)[0] for text in PAGES.values()} == set(GUESTS)


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs/plugins/README.md").read_text()
    assert {path.name for path in (ROOT / "docs/plugins").glob("*.md")} - {"README.md"} <= set(
        re.findall(r"\]\(([\w-]+\.md)\)", index)
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_what_a_page_configures_is_understood_and_its_args_are_told(path, monkeypatch):
    monkeypatch.setattr(ModelScore, "open", lambda path, width: None)
    text = PAGES[path]
    name, plugin = guest_of(text)
    (profile,) = cluster_of(text).core.profiles.values()
    assert name in {each.name for each in profile.plugins}
    args = getattr(plugin, "args_type", None)
    for field in args.__struct_encode_fields__ if args is not None else ():
        assert f"`{field}`" in text or f"`{field}[]`" in text or f"`{field}." in text or f"`{field}:" in text, field


@pytest.mark.parametrize("path", [path for path in PAGES if "```text" in PAGES[path]], ids=lambda path: path.stem)
def test_what_a_page_says_of_pods_is_so(path):
    text = PAGES[path]
    cluster = cluster_of(text)
    resources = cluster.core.resources
    for said in blocks(text, "json"):
        for document in resources.polled:
            cluster.put(document.read(json.loads(said)))
    pods = []
    for manifest in yaml.safe_load_all(blocks(text, "yaml")[1]):
        completed(manifest)
        custom = resources.of_manifest(manifest)
        if custom is not None and manifest["kind"] != "Pod":
            cluster.put(custom.read(manifest))
            continue
        (pods.append if manifest["kind"] == "Pod" else cluster.put)(make_object(manifest))
    for pod in pods:
        cluster.put(pod)
    cluster.run()
    cluster.advance(10.0)
    (expected,) = blocks(text, "text")
    placed = {name.rpartition("/")[2]: node for name, node in cluster.nodes_of().items()}
    for line in expected.splitlines():
        name, waits, why = line.partition(" waits: ")
        if waits:
            assert placed[name] == ""
            assert any(why in told for told in cluster.events("FailedScheduling")), cluster.events("FailedScheduling")
        else:
            name, _, node = line.partition(" goes to ")
            assert placed[name] == node, placed


def completed(manifest):
    """Give a manifest what the API server would."""
    metadata = manifest["metadata"]
    if manifest["kind"] == "Pod":
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"{metadata.get('namespace', '')}/{metadata['name']}")


def test_the_plugin_that_came_from_go_prefers_the_smallest():
    (program,) = blocks((ROOT / "docs/plugins/from-go-to-python.md").read_text(), "python")
    names = {}
    exec(program, names)
    nodes = [make_node(name).capacity(cpu=cpu, memory="8Gi") for name, cpu in (("large", "64"), ("small", "4"))]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plugins = {"multiPoint": {"enabled": [{"name": "SmallestFirst", "weight": 10}]}}
    cluster = VirtualCluster(
        *nodes, make_pod("p"), plugins=[names["SmallestFirst"]], config={**kind, "profiles": [{"plugins": plugins}]}
    ).run()
    assert cluster.nodes_of() == {"p": "small"}
