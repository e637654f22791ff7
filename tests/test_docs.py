"""The documents tell the truth: what they name exists, and their plugins and programs work."""

import ast
import collections.abc
import re
import types
import typing
from pathlib import Path

import pytest

import berth.plugin
import berth.plugin.advanced
from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth.framework import interface
from berth.framework.loaded import FORMS
from berth.framework.promises import IN_TREE_PROMISES
from berth.framework.registry import Registry
from berth.library.result import ScheduleResult
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import replay
from tests.effort import LONG_ROOMS
from tests.paths import ROOT

DOCUMENTS = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
            "packages/plugins/README.md",
            "packages/cluster/tests/suite/README.md",
            "tests/seeds/README.md",
            *(f"packages/{house}/README.md" for house in ("scheduler", "workloads", "workbench", "cluster", "kueue")),
            "tests/conformance/README.md",
            "tests/upstream-tables.md",
        )
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    named = set(re.findall(r"`((?:src|tests|benchmarks|docs|deploy)/[\w./-]+)`", text))
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [target for target in linked if not (document.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_section_leads_to_one(document: Path) -> None:
    linked = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text())
    targets = [(document.parent / path if path else document, section) for path, section in linked]
    assert [f"{path}#{section}" for path, section in targets if section not in _sections(path)] == []


def _sections(document: Path) -> set[str]:
    """The headings of a document as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_to_be_had_where_there_is_nothing(document: Path) -> None:
    """There is no release yet (docs/support.md): no document takes Berth from an index, or an image from a registry."""
    text = document.read_text()
    assert re.findall(r"pip install[^`\n]*\bberth-scheduler\b.*", text) == []
    images = re.findall(r"([\w.-]+)/berth-(?:scheduler|with-plugins)[\w-]*(?::|\s|$)", text)
    assert {each for each in images if "." in each} <= {"registry.example.com"}


def _test_files() -> list[Path]:
    places = (ROOT / "tests", *(ROOT / "packages").glob("*/tests"))
    return sorted(path for place in places for path in place.rglob("test_*.py"))


def test_every_long_test_is_told_of() -> None:
    text = (ROOT / "docs/testing.md").read_text()
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in _test_files()}
    long = {name for name, source in sources.items() if re.search(r"^[^#\n]*\bmark\.long\b", source, re.MULTILINE)}
    long = {name for name in long if not name.startswith(LONG_ROOMS)} | {*LONG_ROOMS}
    first_cells = "\n".join(re.findall(r"^\| .*? \|", text, re.MULTILINE))
    assert set(re.findall(r"`(\S*tests/\S+(?:\.py|/))`", first_cells)) == long


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_the_index_leads_to_every_document() -> None:
    listed = re.findall(r"^\| \[(.+)\]\(\1\) \|", (ROOT / "docs/README.md").read_text(), re.MULTILINE)
    there = [path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    assert sorted(listed) == sorted([*there, "plugins/README.md"])


def test_the_page_about_commands_names_every_one() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    assert [name for name in main.list_commands(None) if f"`berth {name}" not in text] == []


def test_the_first_plugin_of_the_tutorial_decides() -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, object] = {}
    exec(code[1], names)
    registry = in_tree_registry().merge(Registry({"QuietRack": names["QuietRack"]}, "the tutorial"))
    quiet = make_node("quiet").capacity(cpu="4", memory="8Gi", pods=10).label("rack.example.com/mode", "quiet")
    loud = make_node("loud").capacity(cpu="4", memory="8Gi", pods=10)
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "QuietRack", "weight": 2}]}},
            }
        ],
    }
    objects = [{"kind": "Node", **node.document} for node in (quiet, loud)]
    case = {"name": "tutorial", "config": config, "objects": objects, "pods": [make_pod("p").document]}
    [decision] = replay(case, registry)
    assert decision["chosen"] == "loud"
    assert decision["filter"] == {
        "quiet": {"QuietRack": {"code": "Unschedulable", "reasons": ["node(s) were in a quiet rack"]}}
    }
    assert decision["scores"]["QuietRack"] == {"loud": 200}


def test_the_program_of_the_embedding_page_prints_what_the_page_says(capsys) -> None:
    text = (ROOT / "docs/embedding.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == printed


def test_the_embedding_page_names_every_field_of_a_result() -> None:
    text = (ROOT / "docs/embedding.md").read_text()
    fields = [name for name in ScheduleResult("a/b", "gated", None, "", None).as_dict() if name != "pod"]
    assert [name for name in fields if f"`{name}`" not in text] == []


@pytest.mark.parametrize("module", [berth.plugin, berth.plugin.advanced], ids=lambda module: module.__name__)
def test_every_name_for_plugins_is_there_and_documented(module: types.ModuleType) -> None:
    text = (
        (ROOT / "docs/plugins-cookbook.md")
        .read_text()
        .partition(f"## What {module.__name__} offers")[2]
        .partition("\n## ")[0]
    )
    documented = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    assert [name for name, _ in documented] == module.__all__ == sorted(set(module.__all__), key=_as_ruff)
    assert all(hasattr(module, name) for name in module.__all__)
    public = {name for name, value in vars(module).items() if not name.startswith("_")} - {"advanced"}
    assert public == set(module.__all__)


def test_the_front_door_stays_small() -> None:
    assert len(berth.plugin.__all__) <= 90


def _as_ruff(name: str) -> tuple[int, str]:
    """The order that the linter gives __all__: constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


FOR_OTHERS = {"berth", "berth.plugin", "berth.plugin.advanced", "berth.testing"}
"""What is kept stable for plugins and embedders."""


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / "docs" / page for page in ("plugins.md", "plugins-cookbook.md", "plugin-forms.md")),
        *sorted((ROOT / "examples").glob("*.py")),
    ],
    ids=lambda path: path.name,
)
def test_plugins_and_embedders_are_shown_stable_modules_only(path: Path) -> None:
    text = path.read_text()
    named = set(re.findall(r"^\s*(?:from|import) (berth[\w.]*)", text, re.MULTILINE))
    assert named
    assert named <= FOR_OTHERS


def test_every_type_that_a_plugins_signature_names_is_in_berth_plugin() -> None:
    """The Protocols of the contract, and whatever of ours their methods name as a parameter or a result."""
    named = set()
    in_tree = {form.protocol for form in FORMS.values() if form.promise in IN_TREE_PROMISES}
    for node in ast.parse(Path(interface.__file__).read_text()).body:
        kind = vars(interface)[node.name] if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and getattr(kind, "_is_protocol", False) and kind not in in_tree:
            named.add(node.name)
            for method in (each for each in node.body if isinstance(each, ast.FunctionDef)):
                annotations = [method.returns, *(argument.annotation for argument in method.args.args)]
                named |= {
                    name.id for each in annotations if each for name in ast.walk(each) if isinstance(name, ast.Name)
                }
    ours = {name for name in named if _is_ours(vars(interface).get(name), name)}
    assert {"FilterPlugin", "Rows", "Diagnosis", "PostFilterAnswer", "Steps"} <= ours
    assert ours - {*berth.plugin.__all__, *berth.plugin.advanced.__all__} == set()


def _is_ours(value: object, name: str) -> bool:
    """Whether it was defined in Berth: a class, or an alias, which no module of typing or collections has."""
    if isinstance(value, type):
        return value.__module__.startswith("berth")
    return value is not None and not any(hasattr(each, name) for each in (typing, collections.abc))
