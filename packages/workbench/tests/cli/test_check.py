"""`berth check` on the command line: two trees, one or several clusters, and the forms for pipelines."""

import json
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.cli import main
from berth_workbench.planning.check import CheckFinding
from berth_workbench.showing.markdown import escaped
from packages.workbench.tests.planning.test_check import deployment
from packages.workbench.tests.planning.test_survival import node
from tests.paths import ROOT


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Two sides in directories, and two clusters: one of 8 CPUs, and one of 32."""
    monkeypatch.chdir(tmp_path)
    for side, text in {
        "main/web.yaml": deployment("web", 4),
        "main/gone.yaml": deployment("gone", 1),
        "pr/apps/web.yaml": f"# of the shop\n{deployment('api', 1)}\n{deployment('web', 10)}",
    }.items():
        (tmp_path / side).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / side).write_text(text)
    for name, cpu in (("eu", "4"), ("us", "16")):
        nodes = [node(f"n{at}", "ab"[at], cpu).document for at in range(2)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return tmp_path


SIDES = ("check", "--base", "main", "--head", "pr")


def run(*typed, **options):
    return CliRunner().invoke(main, [*SIDES, *typed], **options)


def test_markdown_has_a_line_for_each_finding_and_one_for_all_that_is_well(here):
    found = run("--cluster", "eu.json", "-o", "markdown")
    assert found.exit_code == 0
    first, *_, last = found.output.splitlines()
    assert first == "❌ shop/web 4 → 10: 7 have a place; 3 lack 1 CPU. 1 more node like n0 takes them.  "
    assert last == "✅ 2 other workloads (1 gone): 1 pod, all placed; cost of requests +6 CPU"


@pytest.mark.parametrize(
    ("cluster", "fail_on", "code"),
    [("eu.json", "error", 1), ("eu.json", "warning", 1), ("us.json", "error", 0), ("us.json", "warning", 0)],
)
def test_fail_on_is_the_exit_code(here, cluster, fail_on, code):
    assert run("--cluster", cluster, "--fail-on", fail_on).exit_code == code


def test_json_and_yaml_say_where_the_manifest_is(here):
    found = json.loads(run("--cluster", "eu.json", "-o", "json").output)
    assert (found["verdict"], found["fits"]) == ("error", "no")
    assert found["findings"][0]["file"] == "pr/apps/web.yaml"
    assert yaml.safe_load(run("--cluster", "eu.json", "-o", "yaml").output) == found


def test_annotations_point_at_the_line_that_begins_the_object(here):
    line, *_ = run("--cluster", "eu.json", "-o", "github").output.splitlines()
    lines = (here / "pr/apps/web.yaml").read_text().splitlines()
    number = lines.index("metadata: {name: web, namespace: shop}") - 2  # below apiVersion and kind
    start = f"::error file=pr/apps/web.yaml,line={number + 1},title=berth check shop/web::"
    assert line.startswith(start)
    assert lines[number] == "apiVersion: apps/v1"


def test_junit_has_a_case_for_each_workload_and_reports_are_the_same(here):
    found = run("--cluster", "eu.json", "-o", "junit", "--report", "r.xml", "--report", "r.md", "--report", "r.json")
    assert (here / "r.xml").read_text() == found.output
    suite = ET.fromstring(found.output)[0]
    failed = {case.get("name"): [each.tag for each in case] for case in suite}
    assert failed["shop/web"][0] == "failure"
    assert "failure" not in (*failed["shop/api"], *failed["shop/gone"])
    assert suite.get("failures") == "1"
    assert (here / "r.md").read_text() == run("--cluster", "eu.json", "-o", "markdown").output
    assert json.loads((here / "r.json").read_text())["verdict"] == "error"


def test_several_clusters_have_a_line_each_and_the_worst_counts(here):
    found = run("--cluster", "eu.json", "--cluster", "west=us.json", "-o", "markdown", "--fail-on", "error")
    assert found.exit_code == 1
    _, eu, west = found.output.splitlines()
    assert eu.startswith("❌ eu: does not fit: shop/web 4 → 10")
    assert west == "✅ west: fits now"
    both = json.loads(run("--cluster", "eu.json", "--cluster", "us.json", "-o", "json").output)
    assert {name: each["fits"] for name, each in both["clusters"].items()} == {"eu": "no", "us": "now"}
    assert run("--cluster", "eu.json", "--cluster", "eu.json").exit_code == 2


def test_rendered_output_on_standard_input_is_told_by_the_charts_template(here):
    rendered = deployment("web", 10).replace("---\n", "---\n# Source: shop/templates/web.yaml\n")
    typed = ["check", "--head", "-", "--cluster", "eu.json", "-o", "github"]
    found = CliRunner().invoke(main, typed, input=rendered)
    assert "::error file=shop/templates/web.yaml,title=berth check shop/web::" in found.output


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--head", "nowhere", "--cluster", "eu.json"], "--head nowhere: there is no such file or directory"),
        (["--head", "-", "--base", "-", "--cluster", "eu.json"], "standard input (-) can be read once"),
        (["--head", "pr", "--cluster", "eu.json", "--report", "r.txt"], "the name ends in .md, .xml, .json"),
        ([], "Missing option '--head'"),
    ],
)
def test_what_cannot_be_asked_is_told(here, typed, said):
    found = CliRunner().invoke(main, ["check", *typed])
    assert found.exit_code in (1, 2)
    assert said in found.output


def test_a_kustomization_is_not_read_as_manifests(here):
    """Its patches are no objects, and its parts would be counted as often as they are used."""
    (here / "pr/kustomization.yaml").write_text("resources: [apps/web.yaml]\n")
    found = run("--cluster", "eu.json")
    assert found.exit_code == 1
    assert "`kubectl kustomize pr > manifests.yaml`" in found.output


def test_text_of_a_cluster_is_no_markdown_and_no_workflow_command():
    from berth_workbench.cli.check_reports import annotations, junit
    from berth_workbench.planning.check import Check

    evil = "<b>*x*</b> | `y` [z](http://w)\n::error::own\x1b[31m"
    assert not set(escaped(evil).replace("\\<", "").replace("\\>", "")) & set("<>\n\x1b")
    check = Check("error", "no", (), findings=(CheckFinding("error", "Pod", "a,b:c", evil, "f,g.yaml", 3),))
    (line,) = annotations({"": check})
    assert "\n" not in line and "file=f%2Cg.yaml,line=3,title=berth check a%2Cb%3Ac" in line
    (failure,) = ET.fromstring(junit({"": check})).iter("failure")
    assert failure.get("message").startswith("<b>*x*</b>")
    assert msgspec.json.encode(check)


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    """Its commands are typed where the manifests and clusters are those that it speaks of: 6 CPUs a node, or 32."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/pull-requests.md").read_text()
    for side, workloads in {
        "main": [("web", 4, "2"), ("api", 2, "500m"), ("old", 1, "500m")],
        "pr": [("web", 12, "2"), ("api", 3, "500m"), ("cache", 2, "500m")],
    }.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "all.yaml").write_text("".join(deployment(*each) for each in workloads))
    for name, cpu in (("now.snapshot.gz", "6"), ("eu.gz", "6"), ("us.gz", "32")):
        nodes = [node(f"std-{at}", f"zone-{zone}", cpu).document for at, zone in enumerate("abca", 1)]
        (tmp_path / name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    shown = re.findall(r"^    \$ berth (check .+)\n((?:    .+\n)+)", page, re.MULTILINE)
    assert len(shown) == 2
    for typed, printed in shown:
        said = CliRunner().invoke(main, typed.split()).output
        assert [line.strip() for line in said.splitlines()] == [line.strip() for line in printed.splitlines()]
