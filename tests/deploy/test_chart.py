"""The chart itself: its values are what its schema says, and every one of them is read and explained."""

import json
import re

import jsonschema
import pytest
import yaml

from tests.deploy.chart import CHART, Renderer, UnsupportedError, defaults, merged, notes, rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def leaves(values, path=""):
    """The paths of all values that are no maps with a shape of their own."""
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in ("resources", "nodeSelector"):
            yield from leaves(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}"


def test_the_defaults_keep_to_the_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(defaults(), SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "besides"},
        {"replicas": 0},
        {"replicas": "2"},
        {"name": "Berth"},
        {"image": {"repository": ""}},
        {"logging": {"format": "xml"}},
        {"schedulername": "typo"},
        {"extraArgs": ["v=2"]},
    ],
)
def test_wrong_values_are_refused(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(defaults(), wrong), SCHEMA)


def test_every_value_is_read_by_a_template():
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert [path for path in leaves(defaults()) if f".Values{path}" not in text] == []


def test_every_value_that_is_read_has_a_default():
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    known = set(leaves(defaults()))
    read = set(re.findall(r"\.Values((?:\.\w+)+)", text))
    assert {path for path in read if not any(path == each or path.startswith(each + ".") for each in known)} == set()


def test_every_value_is_explained():
    """A comment stands above each key, or above the map that it is in."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    explained = {}
    for above, line in zip(["", *lines], lines, strict=False):
        key = re.match(r"( *)(\w+):", line)
        if key:
            depth = len(key[1])
            explained[depth] = above.strip().startswith("#") or (explained.get(depth, False) and above.strip() != "")
            is_inside = any(explained.get(d, False) for d in range(depth))
            assert explained[depth] or is_inside or key[2] in SELF_EXPLAINING, line


SELF_EXPLAINING = {"image", "config", "logging", "resources", "nodeSelector", "tolerations", "podDisruptionBudget"}
SELF_EXPLAINING |= {"monitoring", "pullPolicy", "requests", "limits", "cpu", "memory", "operator", "effect"}
"""Kubernetes' own words, and maps whose members are explained."""


def test_what_is_printed_after_installing():
    assert '"berth"' in notes() and "kube-system/berth" in notes()
    assert "shares that lease" in notes(mode="instead")
    assert "-n infra rollout status deployment/second" in notes("infra", name="second")


def test_secrets_are_not_rendered():
    assert {document["kind"] for document in rendered()} & {"Secret"} == set()


def test_a_template_that_says_more_than_is_known_is_an_error(tmp_path):
    renderer = Renderer("kube-system", "berth", defaults())
    (tmp_path / "new.yaml").write_text("{{ .Values.name | b64enc }}")
    renderer.trees["new.yaml"] = renderer._parsed(tmp_path / "new.yaml")
    with pytest.raises(UnsupportedError):
        renderer.render("new.yaml")


def test_the_chart_says_which_clusters():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2" and chart["kubeVersion"].startswith(">=1.30")
