"""Alerts and dashboard ask for metrics that there are, by labels that they have; and the alerts point to a page."""

import json
import re

import promql_parser
import pytest
import yaml

from berth.runtime.observing.component import ComponentMetrics
from berth.runtime.observing.health_slis import HealthSlis
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.rest_client import RestClientMetrics
from berth.runtime.scheduler import LiveScheduler
from tests.deploy.chart import ROOT, rendered
from tests.runtime.world import World, configuration

MONITORING = ROOT / "deploy/kustomize/components/monitoring"
ADDED_BY_PROMETHEUS = {"job", "instance", "namespace", "pod", "service", "endpoint", "container"}
MADE_BY_PROMETHEUS = {"up": set()}
"""Metrics of Prometheus itself, with their own labels."""
SAMPLES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum"), "summary": ("", "_sum")}


def expressions_of_alerts():
    document = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())
    return {rule["alert"]: rule["expr"] for group in document["spec"]["groups"] for rule in group["rules"]}


def dashboard():
    return json.loads((MONITORING / "dashboard.json").read_text())


def expressions_of_panels():
    panels = dashboard()["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m").replace("$job", "berth")
        for panel in panels
        for target in panel["targets"]
    }


EXPRESSIONS = expressions_of_alerts() | expressions_of_panels()


@pytest.fixture(scope="module")
def exported():
    """The labels of each sample name that a scheduler gives out, at /metrics and /metrics/slis."""
    world, config, metrics = World(), configuration(leader_elect=True), Metrics()
    scheduler = LiveScheduler(config, world.transport, instrument=metrics)
    metrics.observe(scheduler)
    component = ComponentMetrics(config.feature_gates)
    component.add(RestClientMetrics())
    component.exposition(None, scheduler.work_queues)
    families = [*metrics.collect(), *HealthSlis().collect(), *component._registry.collect()]
    found = dict(MADE_BY_PROMETHEUS)
    for family in families:
        own = set(family._labelnames) | {"le"} if family.type == "histogram" else set(family._labelnames)
        for suffix in SAMPLES[family.type]:
            found[family.name + suffix] = own
    return found


def what_counts(node):
    """The side of an `unless` whose samples are left; the other one only says which are not."""
    is_filtered = isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "unless"
    return what_counts(node.lhs) if is_filtered else node


def parts(expression):
    """Every selector, and every `by (...)` with the names of the metrics below it."""
    selectors, groupings = [], []

    def look(node):
        if isinstance(node, promql_parser.VectorSelector):
            selectors.append(node)
        if isinstance(node, promql_parser.MatrixSelector):
            selectors.append(node.vector_selector)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            counted = what_counts(node.expr)
            groupings.append((set(node.modifier.labels), {each.name for each in parts(counted.prettify())[0]}))
        return True

    promql_parser.walk(promql_parser.parse(expression), look)
    unique = {str(each): each for each in selectors}
    return list(unique.values()), groupings


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_it_asks_for_what_there_is(name, exported):
    selectors, groupings = parts(EXPRESSIONS[name])
    assert selectors
    for selector in selectors:
        assert selector.name in exported, selector.name
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked <= exported[selector.name] | ADDED_BY_PROMETHEUS, selector.name
        assert "job" in asked, f"{selector.name} would be taken from other schedulers, too"
    for labels, below in groupings:
        for metric in below:
            assert labels <= exported[metric] | ADDED_BY_PROMETHEUS, metric


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ('scheduler_pending_podz{job="berth"}', KeyError),
        ('sum by (profil) (scheduler_schedule_attempts_total{job="berth"})', AssertionError),
        ('scheduler_pending_pods{job="berth", kueue="active"}', AssertionError),
    ],
)
def test_a_misspelt_one_would_be_noticed(expression, wrong, exported, monkeypatch):
    monkeypatch.setitem(EXPRESSIONS, "wrong", expression)
    with pytest.raises((AssertionError, wrong)):
        test_it_asks_for_what_there_is("wrong", exported)


def test_texts_of_alerts_name_labels_that_are_left():
    document = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())
    for rule in (rule for group in document["spec"]["groups"] for rule in group["rules"]):
        _, groupings = parts(rule["expr"])
        left = set.union(*(labels for labels, _ in groupings)) if groupings else None
        for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert left is None or label in left, f"{rule['alert']}: {label}"


def test_every_page_that_an_alert_names_is_there():
    text = (MONITORING / "prometheus-rule.yaml").read_text()
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    named = re.findall(r'See "([^"]+)" in docs/operations\.md', text)
    assert len(named) > 5 and [heading for heading in named if heading not in headings] == []


def test_alerts_follow_the_releases_name():
    (rule,) = [each for each in rendered(name="second", monitoring={"rules": True}) if each["kind"] == "PrometheusRule"]
    for each in rule["spec"]["groups"][0]["rules"]:
        assert 'job="second"' in each["expr"] and 'job="berth"' not in each["expr"]


def test_panels_lie_beside_one_another():
    taken = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))


def test_custom_resources_have_the_operators_fields():
    """monitoring.coreos.com/v1 of the Prometheus operator: the fields of ours that its API reference has."""
    fields = {
        "ServiceMonitor": {"jobLabel", "selector", "namespaceSelector", "endpoints"},
        "PrometheusRule": {"groups"},
        "endpoints": {"port", "scheme", "path", "bearerTokenFile", "tlsConfig"},
        "rules": {"alert", "expr", "for", "labels", "annotations"},
    }
    found = [each for each in rendered(monitoring={"rules": True, "serviceMonitor": True}) if each["kind"] in fields]
    assert len(found) == 2
    for document in found:
        assert set(document["spec"]) <= fields[document["kind"]]
        for endpoint in document["spec"].get("endpoints", ()):
            assert set(endpoint) <= fields["endpoints"]
        for group in document["spec"].get("groups", ()):
            assert set(group) == {"name", "rules"}
            assert all(set(rule) <= fields["rules"] for rule in group["rules"])
