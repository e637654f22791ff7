"""The v1 schema: defaults, absent against zero, and fields that do not exist."""

import pytest

from berth.config.errors import ConfigError
from berth.config.load import load_config
from berth.config.types import (
    ClientConnection,
    ExtenderConfig,
    ExtenderTLS,
    ExtensionPoint,
    LeaderElection,
    ManagedResource,
    PluginRef,
)
from packages.scheduler.tests.config.documents import names, profile_document, v1_document


def test_defaults_of_an_empty_document():
    config = load_config(v1_document())
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert config.parallelism == 16
    assert config.percentage_of_nodes_to_score is None
    assert (config.pod_initial_backoff_s, config.pod_max_backoff_s) == (1, 10)
    assert config.leader_election == LeaderElection(
        leader_elect=True,
        lease_duration_s=15,
        renew_deadline_s=10,
        retry_period_s=2,
        resource_lock="leases",
        resource_name="kube-scheduler",
        resource_namespace="kube-system",
    )
    assert config.client_connection == ClientConnection(
        kubeconfig="",
        accept_content_types="",
        content_type="application/vnd.kubernetes.protobuf",
        qps=50,
        burst=100,
    )
    assert config.enable_profiling
    assert config.enable_contention_profiling
    assert not config.delay_cache_until_active
    assert config.generation == "v1.36"


@pytest.mark.parametrize(("value", "expected"), [(None, None), (0, 0), (40, 40)])
def test_an_absent_percentage_is_not_zero(value, expected):
    config = load_config(v1_document(percentageOfNodesToScore=value, profiles=[{"percentageOfNodesToScore": value}]))
    assert config.percentage_of_nodes_to_score == expected
    assert config.profiles[0].percentage_of_nodes_to_score == expected


@pytest.mark.parametrize(
    ("fields", "profiling", "contention"),
    [
        ({}, True, True),
        ({"enableProfiling": False}, False, False),
        ({"enableProfiling": False, "enableContentionProfiling": True}, False, True),
        ({"enableContentionProfiling": False}, True, False),
    ],
)
def test_contention_profiling_follows_profiling(fields, profiling, contention):
    config = load_config(v1_document(**fields))
    assert (config.enable_profiling, config.enable_contention_profiling) == (profiling, contention)


def test_zeros_that_upstream_takes_for_absent():
    config = load_config(
        v1_document(leaderElection={"leaseDuration": "0s", "resourceName": ""}, clientConnection={"qps": 0, "burst": 0})
    )
    assert config.leader_election == LeaderElection()
    assert config.client_connection == ClientConnection()


def test_extender_fields():
    document = {
        "urlPrefix": "https://h:1/x",
        "filterVerb": "f",
        "preemptVerb": "pr",
        "prioritizeVerb": "p",
        "weight": 5,
        "bindVerb": "b",
        "enableHTTPS": True,
        "tlsConfig": {"insecure": True, "serverName": "s", "caFile": "/ca", "certData": "Y2VydA=="},
        "httpTimeout": "100ms",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "a.io/b", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    assert load_config(v1_document(extenders=[document])).extenders == (
        ExtenderConfig(
            url_prefix="https://h:1/x",
            filter_verb="f",
            preempt_verb="pr",
            prioritize_verb="p",
            weight=5,
            bind_verb="b",
            enable_https=True,
            tls=ExtenderTLS(insecure=True, server_name="s", ca_file="/ca", cert_data=b"cert"),
            http_timeout_s=0.1,
            node_cache_capable=True,
            managed_resources=(ManagedResource("a.io/b", ignored_by_scheduler=True),),
            ignorable=True,
        ),
    )


def test_extender_timeout_defaults_to_five_seconds():
    config = load_config(v1_document(extenders=[{"urlPrefix": "http://h/"}]))
    assert config.extenders[0].http_timeout_s == 5


def test_plugin_sets_of_all_points_are_read():
    config = load_config(profile_document({point: {"enabled": names("P")} for point in ExtensionPoint}))
    points = config.profiles[0].plugins.points
    assert {point: plugin_set.enabled for point, plugin_set in points.items()} == {
        point: (PluginRef("P"),) for point in ExtensionPoint
    }


def test_plugin_args_stay_as_they_are():
    args = {"anything": [1, {"x": None}]}
    config = load_config(v1_document(profiles=[{"pluginConfig": [{"name": "Mine", "args": args}]}]))
    assert config.profiles[0].plugin_config == {"Mine": args}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (v1_document(healthzBindAddress=":1"), "gone from v1; use the flags --bind-address and --secure-port"),
        (v1_document(plugins={}), "it belongs to a profile: profiles[].plugins"),
        (
            profile_document({"filters": {}}),
            'profiles[0].plugins.filters: unknown field "filters"; did you mean filter',
        ),
        (
            profile_document({"score": {"enabled": [{"weight": 1}]}}),
            "profiles[0].plugins.score.enabled[0].name: Required value",
        ),
        (v1_document(parallelism=2**31), "parallelism: Invalid value: 2147483648: expected an integer <= 2147483647"),
        (v1_document(parallelism=1.5), "parallelism: Invalid value: 1.5: expected an integer"),
        (
            v1_document(profiles=[{"pluginConfig": names("A", "A")}]),
            'profiles[0].pluginConfig[1]: Duplicate value: "A"',
        ),
        (v1_document(extenders=[{"tlsConfig": {"caData": "%"}}]), "extenders[0].tlsConfig.caData: Invalid value"),
    ],
)
def test_refuses(document, message):
    with pytest.raises(ConfigError) as caught:
        load_config(document)
    assert message in str(caught.value)
