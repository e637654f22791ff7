"""Upstream's TestSchedulerOptions (cmd/kube-scheduler/app/options/options_test.go, v1.36), and its flags' verdicts.

Each row has upstream's name. What the client does with a kubeconfig is held by the
tests of `kube/credentials`.
"""

import click
import pytest
from click.testing import CliRunner

from berth.cli.flags import SchedulerFlags, load_configuration, scheduler_flags
from berth.config.errors import ConfigError
from berth.config.load import default_config
from berth.config.types import ExtensionPoint

HEADER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /of/config
"""
ELECTING = "leaderElection:\n  leaderElect: true\n"

PLUGINS = """
profiles:
- plugins:
    preEnqueue: {enabled: [{name: foo}]}
    reserve: {enabled: [{name: foo}, {name: bar}], disabled: [{name: VolumeBinding}]}
    preBind: {enabled: [{name: foo}], disabled: [{name: VolumeBinding}]}
  pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 2}}
  - {name: foo, args: {bar: baz}}
"""

PROFILES = """
profiles:
- schedulerName: foo-profile
  plugins:
    reserve: {enabled: [{name: foo}, {name: VolumeBinding}], disabled: [{name: VolumeBinding}]}
- schedulerName: bar-profile
  plugins:
    preBind: {disabled: [{name: VolumeBinding}]}
  pluginConfig:
  - name: foo
"""

THROUGHPUT = """
profiles:
- schedulerName: high-throughput-profile
  plugins:
    preScore: {enabled: [{name: InterPodAffinity}]}
  pluginConfig:
  - {name: InterPodAffinity, args: {ignorePreferredTermsOfExistingPods: true}}
"""


def of_flags(*args):
    """The flags of a command line, or the words by which it is refused."""
    seen = []

    @click.command()
    @scheduler_flags
    def run(flags: SchedulerFlags):
        seen.append(flags)

    result = CliRunner().invoke(run, list(args))
    return seen[0] if result.exit_code == 0 else result.output


@pytest.fixture
def load(tmp_path):
    """Load a configuration by `--config`."""

    def loaded(text, *args):
        file = tmp_path / "scheduler.yaml"
        file.write_text(text)
        return load_configuration(of_flags("--config", str(file), *args))

    return loaded


def test_v1_config_file(load):
    config = load(HEADER + ELECTING)
    default = default_config()
    assert config.client_connection.kubeconfig == "/of/config"
    assert config.profiles == default.profiles
    assert config.leader_election == default.leader_election


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            HEADER.replace("kubescheduler.config.k8s.io/v1", "componentconfig/v1alpha1"),
            'apiVersion: Unsupported value: "componentconfig/v1alpha1"',
            id="config file in componentconfig/v1alpha1",
        ),
        pytest.param(
            HEADER.replace("config.k8s.io/v1", "config.k8s.io/unknown"),
            'apiVersion: Unsupported value: "kubescheduler.config.k8s.io/unknown"',
            id="unknown version kubescheduler.config.k8s.io/unknown",
        ),
        pytest.param(
            HEADER.replace("apiVersion: kubescheduler.config.k8s.io/v1\n", ""),
            "apiVersion: Required value",
            id="config file with no version",
        ),
        pytest.param(HEADER + "foo: bar\n", 'foo: unknown field "foo"', id="unknown field"),
        pytest.param(
            HEADER + ELECTING + "  leaderElect: false\n",
            "leaderElection.leaderElect (line 8): the key stands in line 7 already",
            id="duplicate fields",
        ),
    ],
)
def test_what_is_refused(load, text, words):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert words in str(caught.value)


def test_kubeconfig_flag():
    config = load_configuration(of_flags("--kubeconfig=/of/flag"))
    assert config.client_connection.kubeconfig == "/of/flag"
    assert config.profiles == default_config().profiles


def test_plugin_config(load):
    (profile,) = load(HEADER + PLUGINS).profiles
    points = {
        point: ([each.name for each in found.enabled], [each.name for each in found.disabled])
        for point, found in profile.plugins.points.items()
    }
    assert points == {
        ExtensionPoint.PRE_ENQUEUE: (["foo"], []),
        ExtensionPoint.RESERVE: (["foo", "bar"], ["VolumeBinding"]),
        ExtensionPoint.PRE_BIND: (["foo"], ["VolumeBinding"]),
    }
    assert profile.plugins.multi_point == default_config().profiles[0].plugins.multi_point
    assert profile.plugin_config == {"InterPodAffinity": {"hardPodAffinityWeight": 2}, "foo": {"bar": "baz"}}


def test_multiple_profiles(load):
    foo, bar = load(HEADER + PROFILES).profiles
    assert (foo.scheduler_name, bar.scheduler_name) == ("foo-profile", "bar-profile")
    reserve = foo.plugins.at(ExtensionPoint.RESERVE)
    assert [each.name for each in reserve.enabled] == ["foo", "VolumeBinding"]
    assert [each.name for each in reserve.disabled] == ["VolumeBinding"]
    assert [each.name for each in bar.plugins.at(ExtensionPoint.PRE_BIND).disabled] == ["VolumeBinding"]
    assert (dict(foo.plugin_config), dict(bar.plugin_config)) == ({}, {"foo": None})


def test_high_throughput_profile(load):
    (profile,) = load(HEADER + THROUGHPUT).profiles
    assert [each.name for each in profile.plugins.at(ExtensionPoint.PRE_SCORE).enabled] == ["InterPodAffinity"]
    assert profile.plugin_config == {"InterPodAffinity": {"ignorePreferredTermsOfExistingPods": True}}


# github.com/spf13/pflag for the kinds; k8s.io/component-base (cli/flag, logs, metrics, compatibility) for the rest.
@pytest.mark.parametrize(
    ("flag", "good", "bad"),
    [
        ("http2-max-streams-per-connection", ["47", "0x10", "-1"], ["many", "1.5", "9223372036854775808"]),
        ("kube-api-burst", ["2147483647", "010"], ["2147483648", "ten", ""]),
        ("kube-api-qps", ["5.5", "-1", "1e3"], ["fast"]),
        ("secure-port", ["0", "65535"], ["-1", "65536", "https"]),
        ("bind-address", ["127.0.0.1", "::1"], ["localhost", "127.0.0.256"]),
        ("leader-elect", ["true", "F", "0"], ["yes"]),
        ("leader-elect-lease-duration", ["1m30s"], ["90", "1 minute"]),
        ("authentication-token-webhook-cache-ttl", ["10s"], ["10"]),
        ("disable-http2-serving", ["true"], ["maybe"]),
        ("tls-curve-preferences", ["23,24"], ["P256", "2147483648"]),
        ("tls-min-version", ["VersionTLS12", "VersionTLS13"], ["1.2", "TLS12"]),
        ("tls-cipher-suites", ["TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA"], ["TLS_AES_128_GCM_SHA256,NULL"]),
        ("tls-sni-cert-key", ["a.crt,a.key", "a.crt,a.key:*.foo.com"], ["a.crt", "a,b,c"]),
        ("allow-metric-labels", ["metric,label=value", '"m,l=a","n,k=b"'], ["metric", "m,l=a,n,k=b", "m=a"]),
        ("disabled-metrics", ["a_total,b:c"], ["a-b"]),
        ("show-hidden-metrics-for-version", ["1.35", ""], ["1.34", "1.36"]),
        ("logging-format", ["text", "json"], ["xml"]),
        ("log-json-info-buffer-size", ["64Ki", "0"], ["much", "64KB"]),
        ("log-flush-frequency", ["5s"], ["5"]),
        ("v", ["0", "10"], ["-1", "high", "2147483648"]),
        ("vmodule", ["file=3", "a=1,b*=2"], ["file", "=3", "file=high"]),
        ("emulated-version", ["1.36", "kube=1.33", "1.35"], ["1.32", "1.37", "1.36.1", "wardle=1.2", "new"]),
        ("min-compatibility-version", ["1.35"], ["1.20"]),
        ("pod-max-in-unschedulable-pods-duration", ["5m"], ["5"]),
    ],
)
def test_values_of_flags(flag, good, bad):
    for value in good:
        assert isinstance(of_flags(f"--{flag}={value}"), SchedulerFlags), value
    for value in bad:
        assert f"--{flag}" in str(of_flags(f"--{flag}={value}")), value


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--log-json-split-stream"], "--log-json-split-stream: Forbidden: feature LoggingAlphaOptions is disabled"),
        (["--log-text-info-buffer-size=1Ki"], "--log-text-info-buffer-size: Forbidden: feature LoggingAlphaOptions is"),
        (["--vmodule=a=1", "--logging-format=json"], "--vmodule: Forbidden: only supported for text log format"),
        (
            ["--requestheader-uid-headers=X-Uid", "--feature-gates=RemoteRequestHeaderUID=false"],
            "--requestheader-uid-headers: Forbidden: feature RemoteRequestHeaderUID is disabled",
        ),
    ],
)
def test_flags_that_do_not_go_together(args, words):
    """component-base/logs/api/v1/options.go, apiserver/pkg/server/options/authentication.go, v1.36."""
    with pytest.raises(ConfigError) as caught:
        load_configuration(of_flags(*args))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        ["--log-json-split-stream", "--feature-gates=LoggingAlphaOptions=true"],
        ["--log-json-split-stream=false", "--log-text-info-buffer-size=0"],
        ["--vmodule=a=1"],
        ["--requestheader-uid-headers=X-Uid"],
    ],
)
def test_flags_that_do_go_together(args):
    assert load_configuration(of_flags(*args)).profiles == default_config().profiles
