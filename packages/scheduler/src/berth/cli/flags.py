"""kube-scheduler's command-line flags: which there are, what becomes of each, and what they change.

`berth run` carries the `scheduler_flags` decorator and gets one `SchedulerFlags`; `load_configuration` turns
it into the configuration, and `warnings_of` names the given flags without effect. Every flag of kube-scheduler v1.36
is accepted, so that an existing command line or manifest works, and those of v1.20 about policies; names and kinds are
upstream's.
"""

import csv
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from berth.api import quantity
from berth.api.addresses import is_loopback
from berth.api.quantity import QuantityError
from berth.cli.setup import config_enabling
from berth.config.durations import format_duration_s, parse_duration_s
from berth.config.errors import ConfigError, forbidden, required, unsupported
from berth.config.feature_gates import (
    SWITCHED,
    V1_20_GATES,
    FeatureGates,
    gate_warnings,
    parse_bool,
    parse_feature_gates,
)
from berth.config.legacy.documents import AlgorithmSource
from berth.config.legacy.providers import PROVIDERS
from berth.config.load import NONE_NAMED, NamedPlugins, checked, legacy_default_config, load_config_file
from berth.config.types import ClientConnection, LeaderElection, SchedulerConfiguration
from berth.runtime.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    SniCertificate,
    TlsOptions,
)

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BIND_ADDRESS: Final = "0.0.0.0"
DEFAULT_INSECURE_ADDRESS: Final = "127.0.0.1"
DEFAULT_SECURE_PORT: Final = 10259
DEFAULT_POLICY_NAMESPACE: Final = "kube-system"
DEFAULT_INSECURE_PORT: Final = 10251
V1_20: Final = "v1.20"
V1_36: Final = "v1.36"


class Flag(NamedTuple):
    """One flag: `ignored` is the reason why it has no effect, empty where it has one."""

    name: str
    kind: str
    help: str = ""
    ignored: str = ""
    deprecated: bool = False


_HTTP2 = "HTTP/1.1 is served, which has no streams"
_ADDRESSES = "addresses are shared with connections that are ending in any case, as Go does too"
_CURVES = "Python's ssl module offers no choice of curves"
_INSECURE = "what --port serves, it serves to anybody, so on loopback only"
_VERSIONS = "the configuration's apiVersion says whether this scheduler behaves as v1.36 or v1.20 did"
_METRICS = "metrics are exposed as they are"
_LOGS = "logs are not buffered, split or filtered by module"


def _ignored(reason: str, *flags: tuple[str, str]) -> tuple[Flag, ...]:
    """Flags that are accepted and do nothing, for one reason."""
    return tuple(Flag(name, kind, ignored=reason) for name, kind in flags)


FLAGS: Final[tuple[Flag, ...]] = (
    Flag("config", "string", "The path to the configuration file."),
    Flag("master", "string", "The address of the Kubernetes API server (overrides any value in kubeconfig)."),
    Flag("write-config-to", "string", "Write the configuration values to this file and exit."),
    Flag("address", "ip", "v1.20 only: the loopback address to serve on too."),
    Flag("port", "port", f"v1.20 only: the port to serve on too, 0 for none (default {DEFAULT_INSECURE_PORT})."),
    *_ignored("the API server's own address is used", ("unsupported-kube-api-over-localhost", "bool")),
    Flag("bind-address", "ip", f"The address to serve on with TLS (default {DEFAULT_BIND_ADDRESS})."),
    Flag("secure-port", "port", f"The port to serve on with TLS, 0 for none (default {DEFAULT_SECURE_PORT})."),
    Flag("cert-dir", "string", "Where a certificate made at the start is kept; in memory where this is not given."),
    *_ignored(_HTTP2, ("disable-http2-serving", "bool"), ("http2-max-streams-per-connection", "int")),
    *_ignored(_ADDRESSES, ("permit-address-sharing", "bool")),
    Flag("permit-port-sharing", "bool", "Let other processes listen on the same port (SO_REUSEPORT)."),
    Flag("tls-cert-file", "string", "The certificate to show, with its chain; reread when it changes."),
    Flag("tls-cipher-suites", "ciphers", "The suites of TLS 1.2 to speak, by Go's names."),
    *_ignored(_CURVES, ("tls-curve-preferences", "int32s")),
    Flag("tls-min-version", "tls version", "The oldest version of TLS to speak (default VersionTLS12)."),
    Flag("tls-private-key-file", "string", "The key of --tls-cert-file."),
    Flag("tls-sni-cert-key", "cert,key", "A certificate and key for clients that ask for its names."),
    Flag(
        "authentication-kubeconfig",
        "string",
        "The kubeconfig with which tokens are reviewed and the cluster's CA is looked up; by default our own access.",
    ),
    Flag("authentication-skip-lookup", "bool", "Look up no CA in the cluster (default false)."),
    Flag("authentication-token-webhook-cache-ttl", "duration", "How long a reviewed token counts (default 10s)."),
    Flag("authentication-tolerate-lookup-failure", "bool", "Go on without what cannot be looked up (default true)."),
    Flag("client-ca-file", "string", "The authorities of client certificates; by default looked up in the cluster."),
    Flag(
        "requestheader-allowed-names", "strings", "Names that the certificate of a front proxy may have; all, if none."
    ),
    Flag("requestheader-client-ca-file", "string", "The authorities of front proxies; by default looked up."),
    Flag(
        "requestheader-extra-headers-prefix", "strings", "Prefixes of a front proxy's headers with more about a user."
    ),
    Flag("requestheader-group-headers", "strings", "A front proxy's headers with a user's groups."),
    Flag("requestheader-uid-headers", "strings", "A front proxy's headers with a user's UID."),
    Flag("requestheader-username-headers", "strings", "A front proxy's headers with a user's name."),
    Flag(
        "authorization-always-allow-paths",
        "strings",
        "Paths that everybody may read; a trailing * stands for anything (default /healthz,/readyz,/livez).",
    ),
    Flag(
        "authorization-kubeconfig", "string", "The kubeconfig with which access is reviewed; by default our own access."
    ),
    Flag("authorization-webhook-cache-authorized-ttl", "duration", "How long a permission counts (default 10s)."),
    Flag("authorization-webhook-cache-unauthorized-ttl", "duration", "How long a refusal counts (default 10s)."),
    Flag("kubeconfig", "string", "The kubeconfig file, unless the configuration file names one."),
    Flag("kube-api-burst", "int32", "Burst of requests to the API server.", deprecated=True),
    Flag("kube-api-content-type", "string", "Content type of requests to the API server.", deprecated=True),
    Flag("kube-api-qps", "float", "Requests a second to the API server.", deprecated=True),
    Flag("profiling", "bool", "Enable profiling.", deprecated=True),
    Flag("contention-profiling", "bool", "Enable lock contention profiling.", deprecated=True),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        "duration",
        "How long a pod stays among the unschedulable before it is tried again (default 5m0s; v1.20: 1m0s).",
    ),
    Flag(
        "algorithm-provider",
        "string",
        f"The algorithm provider of v1.20 to schedule by, one of {', '.join(PROVIDERS)}; flags of policies win.",
    ),
    Flag("policy-config-file", "string", "A file with a Policy, to schedule as v1.20 did."),
    Flag("policy-configmap", "string", "The ConfigMap with a Policy under policy.cfg; wins over --policy-config-file."),
    Flag("policy-configmap-namespace", "string", "The namespace of that ConfigMap (default kube-system)."),
    Flag("use-legacy-policy-config", "bool", "Use --policy-config-file whether there is a ConfigMap or not."),
    Flag("leader-elect", "bool", "Schedule only while holding the lease (default true)."),
    Flag("leader-elect-lease-duration", "duration", "How long others wait for a silent leader (default 15s)."),
    Flag("leader-elect-renew-deadline", "duration", "When a leader that cannot renew gives up (default 10s)."),
    Flag("leader-elect-resource-lock", "string", "The kind of lock; only leases (default leases)."),
    Flag("leader-elect-resource-name", "string", "The lease's name (default kube-scheduler)."),
    Flag("leader-elect-resource-namespace", "string", "The lease's namespace (default kube-system)."),
    Flag("leader-elect-retry-period", "duration", "The wait between tries to get or renew (default 2s)."),
    Flag(
        "feature-gates",
        "strings",
        "Name=true or Name=false, comma-separated. All gates of Kubernetes v1.36 are accepted; these switch something: "
        f"{', '.join(sorted(SWITCHED))}. OpportunisticBatching and SchedulerAsyncAPICalls are built in. With a "
        f"configuration of v1.20's time: {', '.join(V1_20_GATES)}.",
    ),
    *_ignored(_VERSIONS, ("emulated-version", "versions"), ("min-compatibility-version", "versions")),
    *_ignored(
        _METRICS,
        ("allow-metric-labels", "pairs"),
        ("allow-metric-labels-manifest", "string"),
        ("disabled-metrics", "metrics"),
        ("show-hidden-metrics-for-version", "last minor"),
    ),
    Flag("logging-format", "format", "text or json (default text)."),
    Flag("v", "level", "How much to log; 0 is least (default 0)."),
    *_ignored(
        _LOGS,
        ("log-flush-frequency", "duration"),
        ("log-json-info-buffer-size", "quantity"),
        ("log-json-split-stream", "bool"),
        ("log-text-info-buffer-size", "quantity"),
        ("log-text-split-stream", "bool"),
        ("vmodule", "pattern=N"),
    ),
)


class SchedulerFlags(msgspec.Struct, frozen=True):
    """The flags that stand on a command line, by upstream's names, parsed; what was not given is not in it."""

    given: Mapping[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a flag, or `default` where it was not given."""
        return self.given.get(name, default)

    @property
    def feature_gates(self) -> FeatureGates:
        """`--feature-gates`, all occurrences together; raises ConfigError on unknown gates."""
        return parse_feature_gates(",".join(self.get("feature-gates", ())))

    @property
    def bind_address(self) -> str:
        """The address to serve on with TLS."""
        address: str = self.get("bind-address", DEFAULT_BIND_ADDRESS)
        return address

    @property
    def secure_port(self) -> int:
        """The port to serve health and metrics on; 0 serves nothing."""
        port: int = self.get("secure-port", DEFAULT_SECURE_PORT)
        return port

    @property
    def insecure_address(self) -> str:
        """The loopback address of the second port, whatever was asked for."""
        address: str = self.get("address", DEFAULT_INSECURE_ADDRESS)
        return address if is_loopback(address) else DEFAULT_INSECURE_ADDRESS

    def insecure_port(self, config: SchedulerConfiguration) -> int:
        """The second port of v1.20; 0 in today's generation, which has none."""
        port: int = self.get("port", DEFAULT_INSECURE_PORT)
        return port if config.generation == V1_20 else 0

    def shown(self) -> dict[str, str]:
        """The flags that were given, as text, for `/flagz`."""
        kinds = {flag.name: flag.kind for flag in FLAGS}
        return {name: _as_text(kinds[name], value) for name, value in self.given.items()}

    def serving(self) -> ServingOptions:
        """All about the secure port; raises ConfigError."""
        default = ServingOptions()
        return ServingOptions(
            bind_address=self.bind_address,
            port=self.secure_port,
            shares_port=self.get("permit-port-sharing", False),
            tls=self._tls(),
            authentication=self._authentication(default.authentication),
            authorization=self._authorization(default.authorization),
        )

    def _tls(self) -> TlsOptions:
        files = self.get("tls-cert-file", ""), self.get("tls-private-key-file", "")
        if bool(files[0]) != bool(files[1]):
            missing = "--tls-private-key-file" if files[0] else "--tls-cert-file"
            raise ConfigError([required(missing, "a certificate and its key are given together")])
        return TlsOptions(
            *files,
            cert_dir=self.get("cert-dir", ""),
            sni=tuple(map(_sni_certificate, self.get("tls-sni-cert-key", ()))),
            min_version=self.get("tls-min-version", "VersionTLS12"),
            cipher_suites=self._strings("tls-cipher-suites", ()),
        )

    def _authentication(self, default: AuthenticationOptions) -> AuthenticationOptions:
        proxy = "requestheader-"
        return AuthenticationOptions(
            kubeconfig=self.get("authentication-kubeconfig", ""),
            skip_lookup=self.get("authentication-skip-lookup", default.skip_lookup),
            tolerate_lookup_failure=self.get("authentication-tolerate-lookup-failure", default.tolerate_lookup_failure),
            token_cache_ttl_s=self.get("authentication-token-webhook-cache-ttl", default.token_cache_ttl_s),
            client_ca_file=self.get("client-ca-file", ""),
            requestheader_client_ca_file=self.get(proxy + "client-ca-file", ""),
            requestheader_allowed_names=self._strings(proxy + "allowed-names", ()),
            requestheader_username_headers=self._strings(
                proxy + "username-headers", default.requestheader_username_headers
            ),
            requestheader_uid_headers=self._strings(proxy + "uid-headers", ()),
            requestheader_group_headers=self._strings(proxy + "group-headers", default.requestheader_group_headers),
            requestheader_extra_headers_prefix=self._strings(
                proxy + "extra-headers-prefix", default.requestheader_extra_headers_prefix
            ),
        )

    def _authorization(self, default: AuthorizationOptions) -> AuthorizationOptions:
        paths = self._strings("authorization-always-allow-paths", default.always_allow_paths)
        if wrong := next((path for path in paths if "*" in path[:-1]), None):
            raise ConfigError([f'--authorization-always-allow-paths: only trailing * allowed in "{wrong}"'])
        return AuthorizationOptions(
            kubeconfig=self.get("authorization-kubeconfig", ""),
            always_allow_paths=paths,
            allowed_ttl_s=self.get("authorization-webhook-cache-authorized-ttl", default.allowed_ttl_s),
            denied_ttl_s=self.get("authorization-webhook-cache-unauthorized-ttl", default.denied_ttl_s),
        )

    def _strings(self, flag: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list: each occurrence of the flag may hold several, separated by commas."""
        given = self.get(flag)
        if given is None:
            return default
        return tuple(part for text in given for part in text.split(",") if part)

    @property
    def verbosity(self) -> int:
        """The log level as upstream counts: 0 is least."""
        level: int = self.get("v", 0)
        return level

    @property
    def pod_max_in_unschedulable_pods_s(self) -> float | None:
        """How long a pod stays among the unschedulable at most; None for what the generation says."""
        seconds: float | None = self.get("pod-max-in-unschedulable-pods-duration")
        return seconds


def scheduler_flags(command: Command) -> Command:
    """Give a click command all of kube-scheduler's flags; it receives them as `flags: SchedulerFlags`."""

    @wraps(command)
    def with_flags(**options: Any) -> Any:
        given = {}
        for flag in FLAGS:
            value = options.pop(_parameter(flag), None)
            if value is not None and value != ():
                given[flag.name] = value
        return command(flags=SchedulerFlags(given=given), **options)

    decorated: Any = with_flags
    for flag in reversed(FLAGS):
        decorated = _option(flag)(decorated)
    return decorated  # type: ignore[no-any-return]


def load_configuration(flags: SchedulerFlags, named: NamedPlugins = NONE_NAMED) -> SchedulerConfiguration:
    """The configuration of a command line: the file or the defaults, then the flags over it.

    Plugins in `named` are enabled in today's default profile, where no file says which plugins are.
    """
    gates, source = flags.feature_gates, algorithm_source(flags)
    if faults := list(_combination_faults(flags, gates)):
        raise ConfigError(faults)
    path = flags.get("config")
    if path:
        config = load_config_file(path, gates, source)
    else:
        config = config_enabling(named, gates) if source is None else legacy_default_config(gates, source)
    return apply_flags(config, flags)


def _combination_faults(flags: SchedulerFlags, gates: FeatureGates) -> Iterable[str]:
    """Report what upstream refuses of flags together, although each of them can be read and none has an effect here."""
    alpha = [f"log-{form}-split-stream" for form in ("json", "text") if flags.get(f"log-{form}-split-stream")]
    sizes = [f"log-{form}-info-buffer-size" for form in ("json", "text")]
    alpha += [name for name in sizes if quantity.parse(flags.get(name, "0"))]
    if alpha and gates.generation == V1_36 and not gates.enabled("LoggingAlphaOptions"):
        for name in alpha:
            yield forbidden(f"--{name}", "feature LoggingAlphaOptions is disabled: leave the flag out")
    if any(flags.get("vmodule", ())) and flags.get("logging-format") == "json":
        yield forbidden("--vmodule", "only supported for text log format")
    headers = flags.get("requestheader-uid-headers")
    if headers and gates.generation == V1_36 and not gates.enabled("RemoteRequestHeaderUID"):
        yield forbidden("--requestheader-uid-headers", "feature RemoteRequestHeaderUID is disabled: leave the flag out")


def algorithm_source(flags: SchedulerFlags) -> AlgorithmSource | None:
    """The provider or Policy that v1.20's flags name, in its order of precedence; None without. Raises ConfigError."""
    file, config_map = flags.get("policy-config-file"), flags.get("policy-configmap")
    uses_file = flags.get("use-legacy-policy-config", False)
    if uses_file and not file:
        raise ConfigError([required("--policy-config-file", "required when --use-legacy-policy-config is true")])
    if file and (uses_file or not config_map):
        return AlgorithmSource(policy_file=file)
    if config_map:
        namespace = flags.get("policy-configmap-namespace", DEFAULT_POLICY_NAMESPACE)
        return AlgorithmSource(policy_config_map=(namespace, config_map))
    provider = flags.get("algorithm-provider")
    if provider and provider not in PROVIDERS:
        raise ConfigError([unsupported("--algorithm-provider", provider, PROVIDERS)])
    return AlgorithmSource(provider) if provider else None


def apply_flags(config: SchedulerConfiguration, flags: SchedulerFlags) -> SchedulerConfiguration:
    """Lay the flags over a configuration and validate the result; raises ConfigError.

    Leader election flags always win. The deprecated ones count only without `--config`, as upstream, except
    for `--kubeconfig`: it is used wherever the file names no kubeconfig, where upstream would go on without
    one.
    """
    try:
        return checked(
            msgspec.structs.replace(
                config,
                leader_election=_leader_election(config.leader_election, flags),
                client_connection=_client_connection(config.client_connection, flags),
                **({} if flags.get("config") else _profiling(flags)),
            )
        )
    except ConfigError as error:
        raise error.located("configuration with command-line flags") from None


def warnings_of(flags: SchedulerFlags, config: SchedulerConfiguration | None = None) -> list[str]:
    """A sentence for each flag or gate that was given and has no effect, to be printed before the scheduler starts."""
    found = [warning for flag in FLAGS if flag.name in flags.given for warning in _warnings(flag, flags, config)]
    return [*found, *gate_warnings(config.feature_gates if config else flags.feature_gates)]


def _warnings(flag: Flag, flags: SchedulerFlags, config: SchedulerConfiguration | None) -> Iterable[str]:
    """Why one given flag has no effect, if it has none."""
    if flag.ignored:
        yield f"--{flag.name} is ignored: {flag.ignored}"
    elif flag.deprecated and flags.get("config"):
        yield f"--{flag.name} is ignored: it has no effect together with --config; set it in the file"
    elif flag.name == "kubeconfig" and config and config.client_connection.kubeconfig != flags.get(flag.name):
        yield "--kubeconfig is ignored: the configuration file names one in clientConnection.kubeconfig"
    elif flag.name in ("address", "port") and config and config.generation != V1_20:
        yield f"--{flag.name} is ignored: it belongs to the v1.20 generation; use --bind-address and --secure-port"
    elif flag.name == "address" and flags.insecure_address != flags.get(flag.name):
        yield f"--address={flags.get(flag.name)} is ignored: {_INSECURE}; using {flags.insecure_address}"


def _leader_election(election: LeaderElection, flags: SchedulerFlags) -> LeaderElection:
    """Leader election with what the flags say."""
    fields = {
        "leader-elect": "leader_elect",
        "leader-elect-lease-duration": "lease_duration_s",
        "leader-elect-renew-deadline": "renew_deadline_s",
        "leader-elect-retry-period": "retry_period_s",
        "leader-elect-resource-lock": "resource_lock",
        "leader-elect-resource-name": "resource_name",
        "leader-elect-resource-namespace": "resource_namespace",
    }
    return msgspec.structs.replace(election, **_changes(fields, flags))


def _client_connection(client: ClientConnection, flags: SchedulerFlags) -> ClientConnection:
    """The client connection with what the flags set, as far as they apply."""
    fields = {"kube-api-content-type": "content_type", "kube-api-qps": "qps", "kube-api-burst": "burst"}
    changes = {} if flags.get("config") else _changes(fields, flags)
    kubeconfig = client.kubeconfig or flags.get("kubeconfig", "")
    return msgspec.structs.replace(client, kubeconfig=kubeconfig, **changes)


def _profiling(flags: SchedulerFlags) -> dict[str, Any]:
    """The two profiling switches."""
    fields = {"profiling": "enable_profiling", "contention-profiling": "enable_contention_profiling"}
    return _changes(fields, flags)


def _changes(fields: Mapping[str, str], flags: SchedulerFlags) -> dict[str, Any]:
    """The struct fields that the given flags set."""
    return {field: flags.given[name] for name, field in fields.items() if name in flags.given}


def _as_text(kind: str, value: Any) -> str:
    """A value as one would give it."""
    if kind == "duration":
        return format_duration_s(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parameter(flag: Flag) -> str:
    """The name under which click passes a flag."""
    return "flag_" + flag.name.replace("-", "_")


def _option(flag: Flag) -> Callable[[Any], Any]:
    """The click option of a flag; ignored ones are taken but not shown in the help."""
    names = [f"--{flag.name}", _parameter(flag)] + (["-v"] if flag.name == "v" else [])
    extra: dict[str, Any] = {}
    if flag.kind == "bool":
        # `--flag` alone means true, `--flag=false` is how Go's flags say no.
        extra = {"is_flag": False, "flag_value": "true"}
    if flag.kind in _REPEATED:
        extra = {"multiple": True}
    text = flag.help + (" Ignored with --config." if flag.deprecated else "")
    return click.option(*names, type=_TYPES[flag.kind], default=None, help=text, hidden=bool(flag.ignored), **extra)


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # not generic at run time in every supported version of click
    _ParamType = click.ParamType


class _Parsed(_ParamType):
    """A click type from a function that raises ValueError with a sentence."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse text; values that are parsed already pass."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            return self.fail(str(error), param, ctx)


def _bool(text: str) -> bool:
    flag = parse_bool(text)
    if flag is None:
        raise ValueError(f'"{text}" is neither true nor false')
    return flag


def _int(bits: int) -> Callable[[str], int]:
    """Read an integer as Go's flags do: a prefix says the base, underscores may group digits, and it has to fit."""

    def parse(text: str) -> int:
        digits = text.lstrip("+-")
        is_octal = len(digits) > 1 and digits[0] == "0" and digits[1:].isdigit()
        try:
            if text != text.strip():
                raise ValueError
            number = int(text, 8 if is_octal else 0)
        except ValueError:
            raise ValueError(f'"{text}" is not an integer') from None
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"{text} is out of range, it has to fit in {bits} bits")
        return number

    return parse


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**31:
        raise ValueError(f'"{text}" is not a verbosity: write a number of 0 or more')
    return int(text)


def _each(parse: Callable[[str], Any]) -> Callable[[str], str]:
    """Check every part of a comma-separated list."""

    def checked_list(text: str) -> str:
        for part in text.split(","):
            parse(part)
        return text

    return checked_list


def _pairs(text: str) -> str:
    """Check `key=value` pairs. One pair alone may hold commas; of several, those with commas have to be quoted."""
    for pair in [text] if text.count("=") < 2 else next(csv.reader([text])):
        key, equals, _ = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        if not _METRIC_AND_LABEL.fullmatch(key):
            raise ValueError(f'"{key}" does not have the format metricName,labelName')
    return text


def _metric(text: str) -> None:
    if text and not _METRIC.fullmatch(text):
        raise ValueError(f'"{text}" is not the name of a metric')


def _quantity(text: str) -> str:
    try:
        quantity.parse(text)
    except QuantityError as error:
        raise ValueError(str(error)) from None
    return text


def _pattern(text: str) -> None:
    pattern, equals, level = text.partition("=")
    if text and not (pattern and equals):
        raise ValueError(f'"{text}" does not have the pattern=N format')
    if text:
        _level(level)


def _cipher(text: str) -> None:
    if text not in _CIPHERS:
        raise ValueError(f"Cipher suite {text} not supported or doesn't exist")


def _cert_and_key(text: str) -> str:
    if len(text.split(":")[0].split(",")) != 2:
        raise ValueError(f'"{text}": expected comma separated certificate and key file paths')
    return text


def _sni_certificate(text: str) -> SniCertificate:
    """`certificate,key` or `certificate,key:name,name`."""
    files, _, names = text.partition(":")
    certificate, _, key = files.partition(",")
    return SniCertificate(certificate, key, tuple(name for name in names.split(",") if name))


def _version(text: str) -> None:
    """Check a version of the stock scheduler that v1.36 can emulate: `1.35` or `kube=1.35`."""
    component, equals, version = text.rpartition("=")
    if equals and component != "kube":
        raise ValueError(f"component not registered: {component}; the only one is kube")
    if not re.fullmatch(r"v?\d+\.\d+", version, re.ASCII):
        raise ValueError(f'"{version}" is not a version: write major.minor, as in 1.36')
    if version.removeprefix("v") not in _EMULATED:
        raise ValueError(f"version {version} is not between [{_EMULATED[0]}, {_EMULATED[-1]}]")


def _last_minor(text: str) -> str:
    if text and text != _EMULATED[-2]:
        previous = _EMULATED[-2]
        raise ValueError(f"must be omitted or have the value '{previous}': only the previous minor version is allowed")
    return text


_EMULATED: Final = ("1.33", "1.34", "1.35", "1.36")
"""The versions that kube-scheduler v1.36 can be told to behave as."""

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_METRIC_AND_LABEL: Final = re.compile(rf"{_METRIC.pattern},[a-zA-Z_][a-zA-Z0-9_]*")

_CIPHER_NAMES: Final = """
    TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256 TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
    TLS_ECDHE_ECDSA_WITH_RC4_128_SHA TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 TLS_ECDHE_RSA_WITH_RC4_128_SHA TLS_RSA_WITH_3DES_EDE_CBC_SHA
    TLS_RSA_WITH_AES_128_CBC_SHA TLS_RSA_WITH_AES_128_CBC_SHA256 TLS_RSA_WITH_AES_128_GCM_SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA TLS_RSA_WITH_AES_256_GCM_SHA384 TLS_RSA_WITH_RC4_128_SHA
"""
_CIPHERS: Final = frozenset(_CIPHER_NAMES.split())
"""The cipher suites that kube-scheduler v1.36 knows, insecure ones included."""

_REPEATED: Final = frozenset({"strings", "ciphers", "metrics", "pairs", "int32s", "cert,key", "versions", "pattern=N"})
"""The kinds that may be given more than once."""

_TYPES: Final[Mapping[str, _ParamType]] = {
    "string": click.STRING,
    "strings": click.STRING,
    "int": _Parsed("int", _int(64)),
    "int32": _Parsed("int32", _int(32)),
    "int32s": _Parsed("int32s", _each(_int(32))),
    "level": _Parsed("level", _level),
    "pairs": _Parsed("pairs", _pairs),
    "metrics": _Parsed("strings", _each(_metric)),
    "pattern=N": _Parsed("pattern=N", _each(_pattern)),
    "quantity": _Parsed("quantity", _quantity),
    "ciphers": _Parsed("strings", _each(_cipher)),
    "cert,key": _Parsed("cert,key", _cert_and_key),
    "versions": _Parsed("versions", _each(_version)),
    "last minor": _Parsed("version", _last_minor),
    "tls version": click.Choice(["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]),
    "float": click.FLOAT,
    "port": click.IntRange(0, 65535),
    "format": click.Choice(["text", "json"]),
    "bool": _Parsed("bool", _bool),
    "duration": _Parsed("duration", parse_duration_s),
    "ip": _Parsed("ip", lambda text: str(ipaddress.ip_address(text))),
}
