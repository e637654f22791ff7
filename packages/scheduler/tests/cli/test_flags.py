"""kube-scheduler's flags: all taken, the right ones heeded, and a word about the others."""

import click
import msgspec
import pytest
from click.testing import CliRunner

from berth.cli.flags import FLAGS, SchedulerFlags, apply_flags, load_configuration, scheduler_flags, warnings_of
from berth.config.errors import ConfigError
from berth.config.load import default_config
from berth.config.types import ExtensionPoint
from berth.runtime.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    SniCertificate,
    TlsOptions,
)

# The flags of kube-scheduler v1.36, without --help and --version, which the command line library brings.
UPSTREAM_TEXT = """
config master unsupported-kube-api-over-localhost write-config-to
bind-address cert-dir disable-http2-serving http2-max-streams-per-connection permit-address-sharing
permit-port-sharing secure-port tls-cert-file tls-cipher-suites tls-curve-preferences tls-min-version
tls-private-key-file tls-sni-cert-key
authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl
authentication-tolerate-lookup-failure client-ca-file requestheader-allowed-names requestheader-client-ca-file
requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers
requestheader-username-headers
authorization-always-allow-paths authorization-kubeconfig authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl
contention-profiling kube-api-burst kube-api-content-type kube-api-qps kubeconfig
pod-max-in-unschedulable-pods-duration profiling
leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock
leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period
emulated-version feature-gates min-compatibility-version
allow-metric-labels allow-metric-labels-manifest disabled-metrics show-hidden-metrics-for-version
log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
log-text-split-stream logging-format v vmodule
"""

# Those that v1.20 had and today's has not (cmd/kube-scheduler/app/options, release-1.20).
V1_20_TEXT = """
address port
algorithm-provider policy-config-file policy-configmap policy-configmap-namespace use-legacy-policy-config
"""

# Gates that are on by default and depend on NodeDeclaredFeatures (pkg/features/kube_features.go, v1.36).
NEED_DECLARED_FEATURES = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: mine}
clientConnection: {qps: 7}
"""


def parse(*args):
    """The flags of a command line."""
    seen = []

    @click.command()
    @scheduler_flags
    def run(flags):
        seen.append(flags)

    result = CliRunner().invoke(run, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def failure(*args):
    """The message of a command line that is refused."""

    @click.command()
    @scheduler_flags
    def run(flags):
        raise AssertionError("the flags were taken")

    result = CliRunner().invoke(run, list(args))
    assert result.exit_code == 2
    return result.output


@pytest.fixture
def config_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return str(file)


def test_every_upstream_flag_is_there_and_no_other():
    assert sorted(flag.name for flag in FLAGS) == sorted([*UPSTREAM_TEXT.split(), *V1_20_TEXT.split()])


def test_no_flags_mean_the_defaults():
    flags = parse()
    assert flags == SchedulerFlags()
    assert load_configuration(flags) == default_config()
    assert (flags.bind_address, flags.secure_port, flags.verbosity) == ("0.0.0.0", 10259, 0)
    assert flags.serving() == ServingOptions()
    assert flags.pod_max_in_unschedulable_pods_s is None, "the generation knows"


@pytest.mark.parametrize(
    ("generation", "args", "address", "port"),
    [
        ("v1.20", [], "127.0.0.1", 10251),
        ("v1.20", ["--port=0"], "127.0.0.1", 0),
        ("v1.20", ["--address=127.0.0.2", "--port=1234"], "127.0.0.2", 1234),
        ("v1.20", ["--address=0.0.0.0"], "127.0.0.1", 10251),
        ("v1.36", ["--port=1234"], "127.0.0.1", 0),
    ],
)
def test_only_v1_20_has_a_second_port(generation, args, address, port):
    """cmd/kube-scheduler/app/options/insecure_serving.go, release-1.20."""
    flags = parse(*args)
    config = msgspec.structs.replace(load_configuration(flags), generation=generation)
    assert (flags.insecure_address, flags.insecure_port(config)) == (address, port)
    in_vain = generation == "v1.36" or "--address=0.0.0.0" in args
    assert bool(warnings_of(flags, config)) == in_vain


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--leader-elect=false"], False),
        (["--leader-elect"], True),
        (["--leader-elect=F", "--leader-elect=1"], True),
    ],
)
def test_bool_flags_are_gos(args, expected):
    assert load_configuration(parse(*args)).leader_election.leader_elect is expected


def test_flags_set_what_they_name():
    flags = parse(
        "--leader-elect-lease-duration=1m",
        "--leader-elect-renew-deadline=40s",
        "--leader-elect-retry-period=5s",
        "--leader-elect-resource-name=n",
        "--leader-elect-resource-namespace=ns",
        "--kubeconfig=/k",
        "--kube-api-qps=5.5",
        "--kube-api-burst=6",
        "--kube-api-content-type=application/json",
        "--profiling=false",
        "--contention-profiling=false",
        "-v",
        "4",
        "--secure-port=0",
        "--pod-max-in-unschedulable-pods-duration=10m",
    )
    config = load_configuration(flags)
    election, client = config.leader_election, config.client_connection
    assert (election.lease_duration_s, election.renew_deadline_s, election.retry_period_s) == (60, 40, 5)
    assert (election.resource_name, election.resource_namespace) == ("n", "ns")
    assert (client.kubeconfig, client.qps, client.burst) == ("/k", 5.5, 6)
    assert client.content_type == "application/json"
    assert (config.enable_profiling, config.enable_contention_profiling) == (False, False)
    assert (flags.verbosity, flags.secure_port, flags.pod_max_in_unschedulable_pods_s) == (4, 0, 600)
    assert warnings_of(flags, config) == []


def test_with_a_file_leader_election_flags_win_and_deprecated_ones_do_not(config_file):
    flags = parse("--config", config_file, "--leader-elect=false", "--kube-api-qps=99", "--profiling=false")
    config = load_configuration(flags)
    assert not config.leader_election.leader_elect
    assert config.leader_election.resource_name == "mine"
    assert config.client_connection.qps == 7
    assert config.enable_profiling
    assert warnings_of(flags, config) == [
        "--kube-api-qps is ignored: it has no effect together with --config; set it in the file",
        "--profiling is ignored: it has no effect together with --config; set it in the file",
    ]


def test_kubeconfig_fills_in_where_the_file_names_none(config_file, tmp_path):
    flags = parse("--config", config_file, "--kubeconfig=/flag")
    config = load_configuration(flags)
    assert config.client_connection.kubeconfig == "/flag"
    assert warnings_of(flags, config) == []
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("qps: 7", "kubeconfig: /file"))
    flags = parse("--config", str(other), "--kubeconfig=/flag")
    config = load_configuration(flags)
    assert config.client_connection.kubeconfig == "/file"
    assert warnings_of(flags, config) == [
        "--kubeconfig is ignored: the configuration file names one in clientConnection.kubeconfig"
    ]


def test_the_result_is_validated_again():
    with pytest.raises(ConfigError) as caught:
        apply_flags(default_config(), SchedulerFlags(given={"leader-elect-lease-duration": 3.0}))
    assert "command-line flags: leaderElection.leaseDuration: " in str(caught.value)


def test_feature_gates_reach_the_default_profile():
    off = ",".join(f"{name}=false" for name in ("NodeDeclaredFeatures", *NEED_DECLARED_FEATURES))
    config = load_configuration(
        parse(f"--feature-gates={off}", "--feature-gates=GenericWorkload=true,GangScheduling=true")
    )
    assert config.feature_gates.enabled("GangScheduling")
    names = [plugin.name for plugin in config.profiles[0].plugins.multi_point.enabled]
    assert "NodeDeclaredFeatures" not in names
    assert "GangScheduling" in names


def test_ignored_flags_are_said_to_be():
    flags = parse("--http2-max-streams-per-connection=7", "--permit-address-sharing", "--tls-curve-preferences=29")
    warnings = warnings_of(flags)
    assert [warning.split(" is ignored: ")[0] for warning in warnings] == [
        "--http2-max-streams-per-connection",
        "--permit-address-sharing",
        "--tls-curve-preferences",
    ]
    assert warnings_of(parse("--bind-address=::", "--cert-dir=/c", "--authorization-kubeconfig=/k")) == []


def test_the_flags_of_the_secure_port_take_effect():
    flags = parse(
        "--bind-address=::1", "--secure-port=1", "--permit-port-sharing", "--tls-cert-file=/c", "--cert-dir=/d",
        "--tls-private-key-file=/k", "--tls-min-version=VersionTLS13", "--tls-sni-cert-key=/a,/b:x,*.y",
        "--tls-sni-cert-key=/e,/f", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
        "--authentication-kubeconfig=/1", "--authentication-skip-lookup", "--client-ca-file=/2",
        "--authentication-tolerate-lookup-failure=false", "--authentication-token-webhook-cache-ttl=3s",
        "--requestheader-client-ca-file=/3", "--requestheader-allowed-names=a,b", "--requestheader-allowed-names=c",
        "--requestheader-username-headers=u", "--requestheader-group-headers=g",
        "--requestheader-extra-headers-prefix=e", "--authorization-kubeconfig=/4",
        "--authorization-always-allow-paths=/x,/y/*", "--authorization-webhook-cache-authorized-ttl=5s",
        "--authorization-webhook-cache-unauthorized-ttl=6s",
    )  # fmt: skip
    assert warnings_of(flags) == []
    assert flags.serving() == ServingOptions(
        "::1", 1, True,
        TlsOptions("/c", "/k", "/d", (SniCertificate("/a", "/b", ("x", "*.y")), SniCertificate("/e", "/f")),
                   "VersionTLS13", ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")),
        AuthenticationOptions("/1", True, False, 3.0, "/2", "/3", ("a", "b", "c"), ("u",), (), ("g",), ("e",)),
        AuthorizationOptions("/4", ("/x", "/y/*"), 5.0, 6.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tls-cert-file=/c"], "--tls-private-key-file: Required value"),
        (["--tls-private-key-file=/c"], "--tls-cert-file: Required value"),
        (["--authorization-always-allow-paths=/a*b"], r'only trailing \* allowed in "/a\*b"'),
    ],
)
def test_flags_of_the_secure_port_that_do_not_go_together(arguments, message):
    with pytest.raises(ConfigError, match=message):
        parse(*arguments).serving()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--leader-elect=maybe"], '"maybe" is neither true nor false'),
        (["--leader-elect-retry-period=5"], '"5" is not a duration'),
        (["--bind-address=here"], "'here' does not appear to be an IPv4 or IPv6 address"),
        (["--secure-port=70000"], "70000 is not in the range"),
        (["--nope"], "No such option"),
    ],
)
def test_refuses(args, message):
    assert message in failure(*args)


POLICY = """
apiVersion: v1
kind: Policy
predicates: [{name: HostName}]
priorities: [{name: EqualPriority, weight: 1}]
"""


def filters_of(config):
    return [plugin.name for plugin in config.profiles[0].plugins.at(ExtensionPoint.FILTER).enabled]


def test_a_policy_file_selects_the_generation_of_policies(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    config = load_configuration(parse("--policy-config-file", str(file)))
    assert config.generation == "v1.20"
    assert filters_of(config) == ["NodeUnschedulable", "NodeName", "TaintToleration"]


def test_a_config_map_wins_over_the_file_unless_told_otherwise(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    both = ("--policy-config-file", str(file), "--policy-configmap", "mine")
    assert load_configuration(parse(*both)).policy_config_map == ("kube-system", "mine")
    there = load_configuration(parse(*both, "--policy-configmap-namespace", "there"))
    assert there.policy_config_map == ("there", "mine")
    legacy = load_configuration(parse(*both, "--use-legacy-policy-config"))
    assert legacy.policy_config_map is None
    assert len(filters_of(legacy)) == 3


def test_an_algorithm_provider():
    config = load_configuration(parse("--algorithm-provider", "ClusterAutoscalerProvider"))
    scores = [plugin.name for plugin in config.profiles[0].plugins.at(ExtensionPoint.SCORE).enabled]
    assert "NodeResourcesMostAllocated" in scores
    assert "NodeResourcesLeastAllocated" not in scores


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--algorithm-provider", "MyProvider"), ("--algorithm-provider", "MyProvider", "ClusterAutoscalerProvider")),
        (("--use-legacy-policy-config",), ("--policy-config-file", "required when")),
        (("--policy-config-file", "/nowhere/policy.cfg"), ("missing policy config file /nowhere/policy.cfg",)),
    ],
)
def test_what_is_wrong_with_the_algorithm_source(arguments, words):
    with pytest.raises(ConfigError) as caught:
        load_configuration(parse(*arguments))
    assert all(word in str(caught.value) for word in words)


def test_todays_configuration_takes_no_policy(config_file):
    with pytest.raises(ConfigError, match="has no policies and providers: leave the flags out, or use"):
        load_configuration(parse("--config", config_file, "--policy-configmap", "mine"))


def test_gates_go_with_the_generation():
    spread = ("--feature-gates", "DefaultPodTopologySpread=false")
    config = load_configuration(parse("--algorithm-provider", "DefaultProvider", *spread))
    scores = [plugin.name for plugin in config.profiles[0].plugins.at(ExtensionPoint.SCORE).enabled]
    assert scores[-1] == "SelectorSpread"
    with pytest.raises(ConfigError, match=r"v1\.20 has it, and the configuration is of v1\.36"):
        load_configuration(parse(*spread))
    today = ("--feature-gates", "GenericWorkload=true")
    with pytest.raises(ConfigError, match=r"v1\.36 has it, and the configuration is of v1\.20"):
        load_configuration(parse("--algorithm-provider", "DefaultProvider", *today))
