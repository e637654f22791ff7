"""docs/support.md says what the code, the packages and CI say: versions of Kubernetes and Python, and machines."""

import re
import tomllib

import pytest
import yaml

from berth.api.resources import RESOURCES, versions_of
from berth_cluster.apimachinery.releases import DEFAULT_MINOR, NEWEST_MINOR, OLDEST_MINOR
from tests.deploy.chart import ROOT

TEXT = (ROOT / "docs/support.md").read_text()
PROJECTS = {
    path.parent.name: tomllib.loads(path.read_text())["project"]
    for path in sorted((ROOT / "packages").glob("*/pyproject.toml"))
}


def table(heading):
    """The rows of the table whose first column is called so, as `{first cell: the other cells}`."""
    _, _, rest = TEXT.partition(f"| {heading} |")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rest.split("\n\n")[0].splitlines()[2:]]
    return {first: cells for first, *cells in rows}


def matrix():
    """The pairs of Python and machine that CI tests."""
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    found = job["strategy"]["matrix"]
    pairs = {(python, runner) for python in found["python"] for runner in found["runner"]}
    pairs |= {(each["python"], each["runner"]) for each in found["include"]}
    assert "${{ matrix.python }}" in job["container"] and job["runs-on"] == "${{ matrix.runner }}"
    return {(python, "arm64" if runner.endswith("-arm") else "amd64") for python, runner in pairs}


def test_the_pythons_are_those_of_ci():
    told = {
        (python, machine)
        for python, cells in table("Python").items()
        for machine, said in zip(("amd64", "arm64"), cells, strict=True)
        if said.startswith("every change")
    }
    assert told == matrix()


def test_the_pythons_are_those_of_the_package():
    pythons = list(table("Python"))
    classifiers = PROJECTS["scheduler"]["classifiers"]
    assert re.findall(r"Python :: (3\.\d+)'", str(classifiers)) == pythons
    for project in PROJECTS.values():
        assert project["requires-python"] == f">={pythons[0]}"


def test_the_images_python_is_a_tested_one():
    (version,) = re.findall(r"^ARG PYTHON_IMAGE=python:(3\.\d+)-", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for python, cells in table("Python").items():
        assert ["the image has it" in cell for cell in cells] == 2 * [python == version]
    assert {(version, "amd64"), (version, "arm64")} <= matrix()


def test_the_releases_are_those_that_tests_play():
    """`berth_cluster` serves as each, and tests/runtime/test_api_versions.py runs the scheduler on them."""
    rows = table("Kubernetes")
    assert f"1.{DEFAULT_MINOR}" in rows
    played = f"1.{OLDEST_MINOR} to 1.{DEFAULT_MINOR - 1} and 1.{NEWEST_MINOR}"
    assert DEFAULT_MINOR == NEWEST_MINOR - 1 and "every change" in rows[played][-1]
    assert [name for name, cells in rows.items() if cells[-1] == "not tested"] == [f"1.21 to 1.{OLDEST_MINOR - 1}"]
    chart = yaml.safe_load((ROOT / "deploy/helm/berth/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">=1.{OLDEST_MINOR}.0-0"


@pytest.mark.parametrize("generation", ["v1.20", "v1.36"])
def test_decisions_of_the_releases_that_are_named_are_recorded(generation):
    assert (ROOT / "tests/conformance/README.md").read_text().count(generation.removeprefix("v")) > 0
    assert generation.removeprefix("v") in table("Kubernetes")


def test_the_api_versions_are_those_of_the_code():
    several = {kind: versions_of(kind) for kind in RESOURCES if len(versions_of(kind)) > 1}
    assert table("kind") == {
        f"`{kind}`": [", ".join(each.version for each in versions)] for kind, versions in several.items()
    }
