"""Validation: each rule with its path and upstream's wording."""

import pytest

from berth.config.errors import ConfigError
from berth.config.load import load_config
from packages.scheduler.tests.config.documents import names, profile_document, v1_document

EXTENDER = {"urlPrefix": "http://127.0.0.1:8888/s", "filterVerb": "f"}


def extender(**fields):
    return v1_document(extenders=[{**EXTENDER, **fields}])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (v1_document(parallelism=0), "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        (v1_document(parallelism=-1), "parallelism: Invalid value: -1: should be an integer value greater than zero"),
        (
            v1_document(percentageOfNodesToScore=101),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            v1_document(percentageOfNodesToScore=-1),
            "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            v1_document(profiles=[{"percentageOfNodesToScore": 200}]),
            "profiles[0].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
        ),
        (v1_document(podInitialBackoffSeconds=0), "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        (
            v1_document(podInitialBackoffSeconds=3, podMaxBackoffSeconds=2),
            "podMaxBackoffSeconds: Invalid value: 2: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            v1_document(clientConnection={"burst": -1}),
            "clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            v1_document(leaderElection={"leaseDuration": "-1s"}),
            'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
        ),
        (
            v1_document(leaderElection={"retryPeriod": "-1s"}),
            'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero',
        ),
        (
            v1_document(leaderElection={"leaseDuration": "10s"}),
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline` (10s)',
        ),
        (
            v1_document(leaderElection={"renewDeadline": "2400ms"}),
            'leaderElection.renewDeadline: Invalid value: "2.4s": must be greater than retryPeriod*1.2 (2.4s)',
        ),
        (
            v1_document(leaderElection={"resourceLock": "endpoints"}),
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (v1_document(profiles=[{"schedulerName": ""}]), "profiles[0].schedulerName: Required value"),
        (v1_document(profiles=[{"schedulerName": "a"}, {}]), "profiles[1].schedulerName: Required value"),
        (
            v1_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]),
            'profiles[1].schedulerName: Duplicate value: "a"',
        ),
        (
            profile_document({"filter": {"enabled": names("EBSLimits")}}),
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1"',
        ),
        (
            v1_document(profiles=[{"pluginConfig": names("GCEPDLimits")}]),
            'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": was invalid in version "v1"',
        ),
        (
            profile_document({"queueSort": {"enabled": names("A", "B")}}),
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
        (
            v1_document(
                profiles=[
                    {"schedulerName": "a", "plugins": {"queueSort": {"enabled": names("A"), "disabled": names("*")}}},
                    {"schedulerName": "b"},
                ]
            ),
            "profiles[1].plugins.queueSort: Invalid value: []: must be the same for all profiles",
        ),
        (
            v1_document(
                profiles=[
                    {
                        "schedulerName": name,
                        "plugins": {"queueSort": {"enabled": names("A"), "disabled": names("*")}},
                        "pluginConfig": [{"name": "A", "args": {"by": name}}],
                    }
                    for name in ("a", "b")
                ]
            ),
            "queueSort must be the same for all profiles",
        ),
        (
            extender(prioritizeVerb="p"),
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            extender(urlPrefix="10.0.0.1:80"),
            'extenders[0].urlPrefix: Invalid value: "10.0.0.1:80": must be an http or https URL',
        ),
        (extender(urlPrefix="http://h:99999"), "extenders[0].urlPrefix: Invalid value"),
        (extender(httpTimeout="-1s"), 'extenders[0].httpTimeout: Invalid value: "-1s": must not be negative'),
        (
            extender(managedResources=names("cpu")),
            'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
        ),
        (extender(managedResources=names("kubernetes.io/x")), "is an invalid extended resource name"),
        (extender(managedResources=names("requests.example.com/x")), "is an invalid extended resource name"),
        (extender(managedResources=names("example.com/")), "name part must be non-empty"),
        (extender(managedResources=names("Example.com/x")), "prefix part must be a lowercase DNS name"),
        (extender(managedResources=names("example.com/-x")), "name part must consist of alphanumeric characters"),
        (extender(managedResources=names("a.b/c", "a.b/c")), "duplicate extender managed resource name"),
        (
            v1_document(extenders=[{**EXTENDER, "bindVerb": "b"}, {**EXTENDER, "bindVerb": "b"}]),
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ),
    ],
)
def test_refuses(document, message):
    with pytest.raises(ConfigError) as caught:
        load_config(document)
    assert len(caught.value.errors) >= 1
    assert any(message in error for error in caught.value.errors)


@pytest.mark.parametrize(
    "document",
    [
        v1_document(percentageOfNodesToScore=0),
        v1_document(percentageOfNodesToScore=100),
        v1_document(podInitialBackoffSeconds=5, podMaxBackoffSeconds=5),
        v1_document(leaderElection={"leaderElect": False, "resourceLock": "endpoints", "leaseDuration": "1s"}),
        v1_document(clientConnection={"qps": -1}),
        v1_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}]),
        extender(managedResources=names("example.com/gpu", "vendor.io/A_b.c")),
        extender(prioritizeVerb="p", weight=1),
    ],
)
def test_accepts(document):
    load_config(document)


def test_reports_all_faults_together():
    document = v1_document(parallelism=0, percentageOfNodesToScore=101, podInitialBackoffSeconds=0)
    with pytest.raises(ConfigError) as caught:
        load_config(document, source="scheduler.yaml")
    assert [error.split(":")[0] for error in caught.value.errors] == [
        "parallelism",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
    ]
    assert str(caught.value).startswith("scheduler.yaml: 3 errors:\n  - parallelism: ")


def test_an_extender_without_url_is_let_through():
    """Upstream's ValidateKubeSchedulerConfiguration looks at verbs, weights and managed resources, not at URLs."""
    assert load_config(extender(urlPrefix="")).extenders[0].url_prefix == ""
