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
from tests.rbac import Authorizer

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
        {"shards": -1},
        {"podLabels": {"app.kubernetes.io/name": "mine"}},
        {"service": {"labels": {"helm.sh/chart": "mine"}}},
        {"podAnnotations": {"a": 1}},
        {"extraVolumes": [{"name": "tmp"}]},
        {"extraVolumeMounts": [{"name": "mine", "mountPath": "/etc/berth"}]},
        {"ui": {"image": {"repository": ""}}},
        {"networkPolicy": {"ingress": []}},
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
SELF_EXPLAINING |= {"rbac", "networkPolicy"}
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
    "shards": (3, "--shards=3"),
    "resources": ({"requests": {"cpu": "333m"}}, "333m"),
    "affinity": ({"nodeAffinity": {"my-affinity": {}}}, "my-affinity"),
    "topologySpreadConstraints": ([{"maxSkew": 77}], 77),
    "extraVolumes": ([{"name": "my-volume", "emptyDir": {}}], "my-volume"),
    "extraVolumeMounts": ([{"name": "my-volume", "mountPath": "/my-mount"}], "/my-mount"),
    "podLabels": ({"my-pod-label": "there"}, "my-pod-label"),
    "podAnnotations": ({"my-pod-annotation": "there"}, "my-pod-annotation"),
    "service.labels": ({"my-service-label": "there"}, "my-service-label"),
    "service.annotations": ({"my-service-annotation": "there"}, "my-service-annotation"),
    "rbac.guests": (True, "elasticquotas"),
    "rbac.extraRules": ([{"apiGroups": ["my-group"], "resources": ["mine"], "verbs": ["list"]}], "my-group"),
    "networkPolicy.enabled": (True, "NetworkPolicy"),
    "networkPolicy.from": ([{"podSelector": {"matchLabels": {"my-peer": "there"}}}], "my-peer"),
    "networkPolicy.pageFrom": ([{"podSelector": {"matchLabels": {"my-visitor": "there"}}}], "my-visitor"),
    "networkPolicy.egress": ([{"ports": [{"port": 7777}]}], 7777),
    "ui.enabled": (True, "--port=8443"),
    "ui.image.repository": ("registry.example/page", "registry.example/page:"),
    "ui.image.tag": ("8.8.8", ":8.8.8"),
    "ui.hostNames": (["my-host"], "--host-name=my-host"),
    "ui.tlsSecret": ("my-tls", "my-tls"),
    "ui.trials": (True, "limitranges"),
    "ui.extraArgs": (["--feature-gates=DynamicResourceAllocation=true"], "DynamicResourceAllocation"),
    "ui.resources": ({"requests": {"cpu": "222m"}}, "222m"),
    "ui.nodeSelector": ({"my-page-label": "there"}, "my-page-label"),
    "ui.tolerations": ([{"key": "my-page-taint", "operator": "Exists"}], "my-page-taint"),
    "observer.enabled": (True, "observe"),
    "observer.config": ({"percentageOfNodesToScore": 17}, "percentageOfNodesToScore: 17"),
    "observer.extraArgs": (["--scheduler-name=theirs"], "--scheduler-name=theirs"),
    "observer.resources": ({"requests": {"cpu": "111m"}}, "111m"),
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

NEEDS = {
    "monitoring.prometheus.": {"monitoring.serviceMonitor"},
    "networkPolicy.": {"networkPolicy.enabled"},
    "networkPolicy.pageFrom": {"ui.enabled"},
    "observer.": {"observer.enabled"},
    "ui.": {"ui.enabled"},
}
"""What has to be switched on, so that values are read."""


def is_read(path, paths):
    """Whether a value is read where these are set."""
    return all(path.startswith(part) <= (needed <= {*paths}) for part, needed in NEEDS.items())


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


ALL = tuple(sorted(SETTINGS))


def combinations(among=ALL):
    """Each value alone, each two that one template reads, all but one, and all.

    Nothing goes from one template to another but by what the helpers define.
    """
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    helpers = (CHART / "templates/_helpers.tpl").read_text()
    reading = [{path for path in among if f".Values.{path}" in text + helpers} for text in texts]
    yield from itertools.combinations(among, 1)
    yield from (pair for pair in itertools.combinations(among, 2) if any({*pair} <= read for read in reading))
    yield from itertools.combinations(among, len(among) - 1)
    yield tuple(among)


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
        for path in paths:
            if is_read(path, paths) and not is_there(SETTINGS[path][1], documents):
                lost.setdefault(path, paths)
    assert lost == {}


@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_the_configuration_loads_with_every_combination(mode):
    template = (CHART / "templates/config.yaml").read_text() + (CHART / "templates/_helpers.tpl").read_text()
    for paths in combinations(tuple(path for path in sorted(SETTINGS) if f".Values.{path}" in template)):
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


def container(**values):
    (deployment,) = (each for each in rendered(**values) if each["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def test_an_affinity_of_ones_own_takes_the_place_of_the_charts():
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    spread = [{"maxSkew": 2, "topologyKey": "example.com/room", "whenUnsatisfiable": "DoNotSchedule"}]
    (deployment,) = (
        each for each in rendered(affinity=own, topologySpreadConstraints=spread) if each["kind"] == "Deployment"
    )
    spec = deployment["spec"]["template"]["spec"]
    assert (spec["affinity"], spec["topologySpreadConstraints"]) == (own, spread)


def test_each_shard_has_a_lease_that_may_be_taken():
    """docs/several.md: `<resourceName>-shard-<number>`, counted from 0."""
    for mode, lease in (("beside", "berth"), ("instead", "kube-scheduler")):
        roles = Authorizer(rendered(mode=mode, shards=3))
        mine = [
            number
            for number in range(9)
            if roles.allows("update", "coordination.k8s.io", "leases", "kube-system", f"{lease}-shard-{number}")
        ]
        assert mine == [0, 1, 2]
    assert "--shards=3" in container(shards=3)["args"]
    assert not any("shards" in argument for argument in container()["args"])
    assert "kube-scheduler does not stand by" in notes(mode="instead", shards=3)


def test_a_policy_lets_everybody_in_or_whom_it_names():
    (open_to_all,) = policies(networkPolicy={"enabled": True})
    assert open_to_all["policyTypes"] == ["Ingress"]
    assert open_to_all["ingress"] == [{"ports": [{"port": 10259, "protocol": "TCP"}]}]
    peers, egress = [{"podSelector": {}}], [{"ports": [{"port": 443}]}]
    narrowed = {"enabled": True, "from": peers, "egress": egress}
    scheduler, page = policies(networkPolicy=narrowed, ui={"enabled": True})
    assert scheduler["ingress"] == [{"ports": [{"port": 10259, "protocol": "TCP"}], "from": peers}]
    assert page["ingress"] == [{"ports": [{"port": 8443, "protocol": "TCP"}]}]
    assert scheduler["policyTypes"] == page["policyTypes"] == ["Ingress", "Egress"]
    assert scheduler["egress"] == page["egress"] == egress


def policies(**values):
    return [each["spec"] for each in rendered(**values) if each["kind"] == "NetworkPolicy"]


def test_a_page_that_could_not_find_its_scheduler_is_refused():
    """A lease names a pod of its own namespace, and the pods are in the namespace of the release."""
    with pytest.raises(RefusedError, match="install the chart there"):
        rendered("infra", mode="instead", ui={"enabled": True})
    assert rendered("infra", mode="instead")
    assert "service/berth-page 8443:443" in notes(ui={"enabled": True}) and "berth-page" not in notes()


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
