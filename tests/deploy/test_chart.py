"""The chart itself: its values are what its schema says, and every one of them is read and explained."""

import itertools
import json
import re

import jsonschema
import pytest
import yaml

from berth.config.load import load_config
from tests.deploy.chart import (
    CHART,
    Parser,
    RefusedError,
    Renderer,
    UnsupportedError,
    defaults,
    merged,
    notes,
    rendered,
    rendered_to_look_at,
)
from tests.deploy.strict_yaml import documents_of

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


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
    renderer.trees["new.yaml"] = Parser().parsed(tmp_path / "new.yaml")
    with pytest.raises(UnsupportedError):
        renderer.render("new.yaml")


def test_the_chart_says_which_clusters():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["apiVersion"] == "v2" and chart["kubeVersion"].startswith(">=1.30")


# -- what is set arrives --------------------------------------------------------------------------------------------

SETTINGS = {
    "name": ("second", "second"),
    "schedulerName": ("gpu", "gpu"),
    "image.repository": ("registry.example/berth", "registry.example/berth:"),
    "image.tag": ("9.9.9", ":9.9.9"),
    "image.pullPolicy": ("Always", "Always"),
    "imagePullSecrets": ([{"name": "my-registry"}], "my-registry"),
    "replicas": (1, 1),
    "config.qps": (51, "qps: 51"),
    "config.burst": (101, "burst: 101"),
    "config.profiles": ([{"plugins": {"score": {"enabled": [{"name": "MyScore"}]}}}], "MyScore"),
    "config.extenders": ([{"urlPrefix": "https://extender.example"}], "https://extender.example"),
    "policyConfigMap": ("my-policy", "my-policy"),
    "logging.format": ("text", "--logging-format=text"),
    "logging.verbosity": (7, "--v=7"),
    "extraArgs": (["--feature-gates=GenericWorkload=true"], "--feature-gates=GenericWorkload=true"),
    "env": ([{"name": "MY_VARIABLE", "value": "mine"}], "MY_VARIABLE"),
    "resources": ({"requests": {"cpu": "333m"}}, "333m"),
    "nodeSelector": ({"my-label": "there"}, "my-label"),
    "tolerations": ([{"key": "my-taint", "operator": "Exists"}], "my-taint"),
    "podDisruptionBudget.enabled": (True, "PodDisruptionBudget"),
    "monitoring.serviceMonitor": (True, "ServiceMonitor"),
    "monitoring.rules": (True, "PrometheusRule"),
    "monitoring.dashboard": (True, "berth.json"),
    "monitoring.prometheus.serviceAccount": ("my-prometheus", "my-prometheus"),
    "monitoring.prometheus.namespace": ("my-monitoring", "my-monitoring"),
}
"""A value for each that can be set, and what is then to be found in the manifests. `mode` decides about all of them."""


def nested(path, value):
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def set_to(*paths, mode="beside"):
    values = {"mode": mode}
    for path in paths:
        values = merged(values, nested(path, SETTINGS[path][0]))
    return values


def scalars(value):
    """All keys and values of documents, however deep."""
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from scalars(each)
    else:
        yield value


def is_there(wanted, documents):
    return any(
        wanted == each or (isinstance(wanted, str) and isinstance(each, str) and wanted in each)
        for each in scalars(documents)
    )


def combinations():
    """Each value alone, each two of them, all but one, and all."""
    names = sorted(SETTINGS)
    yield from itertools.combinations(names, 1)
    yield from itertools.combinations(names, 2)
    yield from itertools.combinations(names, len(names) - 1)
    yield tuple(names)


def test_each_value_has_a_setting_that_is_looked_for():
    assert {path.removeprefix(".") for path in leaves(defaults())} == {*SETTINGS, "mode"}


@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_what_is_set_arrives_whatever_else_is_set(mode):
    """With every combination the manifests have each key once (`rendered` refuses others), and nothing is lost."""
    lost = {}
    for paths in combinations():
        values = set_to(*paths, mode=mode)
        VALUES.validate(merged(defaults(), values))
        documents = rendered_to_look_at(**values)
        needs_monitor = "monitoring.serviceMonitor" in paths
        for path in paths:
            is_read = needs_monitor or not path.startswith("monitoring.prometheus")
            if is_read and not is_there(SETTINGS[path][1], documents):
                lost.setdefault(path, paths)
    assert lost == {}


@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_the_configuration_loads_with_every_combination(mode):
    for paths in combinations():
        values = set_to(*(path for path in paths if path != "config.profiles"), mode=mode)
        name = values.get("name", "berth")
        (text,) = (each["data"]["config.yaml"] for each in rendered_to_look_at(**values) if is_config(each, name))
        (document,) = documents_of(text)
        (profile,) = load_config(document, "the ConfigMap").profiles
        own = {"beside": name, "instead": "default-scheduler"}[mode]
        assert profile.scheduler_name == values.get("schedulerName", own)


def is_config(document, name):
    return document["kind"] == "ConfigMap" and document["metadata"]["name"] == name


def profile_names(**values):
    (text,) = (each["data"]["config.yaml"] for each in rendered(**values) if is_config(each, "berth"))
    (document,) = documents_of(text)
    return [profile["schedulerName"] for profile in document["profiles"]]


def test_a_profile_without_a_name_has_the_charts_and_not_default_scheduler():
    """An empty schedulerName would be default-scheduler's, whose pods are kube-scheduler's beside us."""
    profiles = [{}, {"schedulerName": "b", "plugins": {}}]
    assert profile_names(config={"profiles": profiles}) == ["berth", "b"]
    assert profile_names(config={"profiles": profiles}, schedulerName="gpu") == ["gpu", "b"]
    assert profile_names(config={"profiles": profiles}, mode="instead") == ["default-scheduler", "b"]


def test_a_scheduler_name_that_no_profile_has_is_refused():
    with pytest.raises(RefusedError, match="schedulerName is gpu, and no profile"):
        rendered(config={"profiles": [{"schedulerName": "a"}]}, schedulerName="gpu")
    assert profile_names(config={"profiles": [{"schedulerName": "a"}]}, schedulerName="a") == ["a"]


def test_whose_pods_are_scheduled_is_told_of_profiles_too():
    told = notes(config={"profiles": [{"schedulerName": "a"}, {}]})
    assert '"a", "berth"' in told and '"schedulerName": "a"' in told


def test_texts_stay_texts():
    """What YAML would take for numbers or truths."""
    values = {"schedulerName": "1e3", "policyConfigMap": "123", "name": "true"}
    values["monitoring"] = {"serviceMonitor": True, "prometheus": {"serviceAccount": "on", "namespace": "007"}}
    documents = rendered(namespace="1234", **values)
    for document in documents:
        meta = document["metadata"]
        texts = [meta["name"], meta.get("namespace", ""), *meta["labels"].values()]
        assert all(isinstance(each, str) for each in texts)
    (text,) = (each["data"]["config.yaml"] for each in documents if is_config(each, "true"))
    (profile,) = load_config(yaml.safe_load(text), "the ConfigMap").profiles
    assert profile.scheduler_name == "1e3"
    strings = [each for each in scalars(documents) if each in ("123", "on", "007", "1234")]
    assert set(strings) == {"123", "on", "007", "1234"}


def test_the_place_of_the_decision_log_is_not_to_be_set():
    """The file system can be written nowhere else."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(defaults(), {"env": [{"name": "XDG_STATE_HOME", "value": "/"}]}), SCHEMA)
