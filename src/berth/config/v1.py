"""`kubescheduler.config.k8s.io/v1`: the document as written in, the internal configuration with defaults out.

Called by `load`. The structs are the document's schema, field by field; None means that the document leaves
a field out, which is how defaults are told from explicit zeros. Values are checked afterwards, by
`validation`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from berth.config.decode import Decoder
from berth.config.defaults import default_plugins, merge_plugins
from berth.config.durations import Duration
from berth.config.errors import ConfigError, duplicate
from berth.config.feature_gates import FeatureGates
from berth.config.types import (
    DEFAULT_SCHEDULER_NAME,
    ClientConnection,
    Extender,
    ExtenderTLS,
    ExtensionPoint,
    LeaderElection,
    ManagedResource,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfiguration,
)

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

_DEFAULT_EXTENDER_TIMEOUT_S: Final = 5.0

# Fields of older versions that people bring along.
_HINTS: Final = MappingProxyType(
    {
        "algorithmSource": "v1 has no policies and providers; list plugins under profiles[].plugins",
        "healthzBindAddress": "gone from v1; use the flags --bind-address and --secure-port",
        "metricsBindAddress": "gone from v1; use the flags --bind-address and --secure-port",
        "hardPodAffinitySymmetricWeight": "set hardPodAffinityWeight in the args of InterPodAffinity",
        "bindTimeoutSeconds": "set bindTimeoutSeconds in the args of VolumeBinding",
        "disablePreemption": "disable DefaultPreemption under profiles[].plugins.postFilter",
        "schedulerName": "it belongs to a profile: profiles[].schedulerName",
        "plugins": "it belongs to a profile: profiles[].plugins",
        "pluginConfig": "it belongs to a profile: profiles[].pluginConfig",
        "featureGates": "feature gates are set with the flag --feature-gates",
        "unreserve": "Unreserve is part of the reserve extension point",
    }
)


class _Doc(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the document's structs."""


class _Plugin(_Doc, frozen=True):
    name: str
    weight: Int32 = 0


class _PluginSet(_Doc, frozen=True):
    enabled: tuple[_Plugin, ...] = ()
    disabled: tuple[_Plugin, ...] = ()


class _Plugins(_Doc, frozen=True):
    multi_point: _PluginSet = _PluginSet()
    pre_enqueue: _PluginSet = _PluginSet()
    queue_sort: _PluginSet = _PluginSet()
    pre_filter: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    post_filter: _PluginSet = _PluginSet()
    pre_score: _PluginSet = _PluginSet()
    score: _PluginSet = _PluginSet()
    reserve: _PluginSet = _PluginSet()
    permit: _PluginSet = _PluginSet()
    pre_bind: _PluginSet = _PluginSet()
    bind: _PluginSet = _PluginSet()
    post_bind: _PluginSet = _PluginSet()
    placement_generate: _PluginSet = _PluginSet()
    placement_score: _PluginSet = _PluginSet()


class _PluginConfig(_Doc, frozen=True):
    name: str
    args: Any = None


class _Profile(_Doc, frozen=True):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: _Plugins | None = None
    plugin_config: tuple[_PluginConfig, ...] = ()


class _ExtenderTLS(_Doc, frozen=True):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class _ManagedResource(_Doc, frozen=True):
    name: str
    ignored_by_scheduler: bool = False


class _Extender(_Doc, frozen=True):
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: _ExtenderTLS | None = None
    http_timeout: Duration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[_ManagedResource, ...] = ()
    ignorable: bool = False


class _LeaderElection(_Doc, frozen=True):
    leader_elect: bool = True
    lease_duration: Duration = Duration(0)
    renew_deadline: Duration = Duration(0)
    retry_period: Duration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class _ClientConnection(_Doc, frozen=True):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class _Configuration(_Doc, frozen=True):
    api_version: str
    kind: str
    parallelism: Int32 | None = None
    leader_election: _LeaderElection = _LeaderElection()
    client_connection: _ClientConnection = _ClientConnection()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: tuple[_Profile, ...] = ()
    extenders: tuple[_Extender, ...] = ()
    delay_cache_until_active: bool = False


def convert(document: Mapping[str, Any], gates: FeatureGates) -> SchedulerConfiguration:
    """The internal configuration of a v1 document; raises ConfigError with everything that does not fit."""
    decoder = Decoder(_HINTS)
    doc = decoder.decode(document, _Configuration)
    if doc is None:
        raise ConfigError(decoder.errors)
    if errors := list(_repeated_plugin_config(doc)):
        raise ConfigError(errors)
    profiling = doc.enable_profiling is not False
    contention = doc.enable_contention_profiling
    return SchedulerConfiguration(
        profiles=tuple(_profiles(doc.profiles, gates)),
        extenders=tuple(map(_extender, doc.extenders)),
        parallelism=16 if doc.parallelism is None else doc.parallelism,
        percentage_of_nodes_to_score=doc.percentage_of_nodes_to_score,
        pod_initial_backoff_s=_or(doc.pod_initial_backoff_seconds, 1),
        pod_max_backoff_s=_or(doc.pod_max_backoff_seconds, 10),
        leader_election=_leader_election(doc.leader_election),
        client_connection=_client_connection(doc.client_connection),
        enable_profiling=profiling,
        # Contention profiling follows profiling where the document does not mention it.
        enable_contention_profiling=profiling if contention is None else contention,
        delay_cache_until_active=doc.delay_cache_until_active,
        feature_gates=gates,
        generation="v1.36",
    )


def _or(value: int | None, default: int) -> int:
    """The value, or the default where the document leaves it out; an explicit 0 stays for validation to see."""
    return default if value is None else value


def _repeated_plugin_config(doc: _Configuration) -> Iterable[str]:
    """Args given twice for one plugin of a profile."""
    for index, profile in enumerate(doc.profiles):
        seen: set[str] = set()
        for place, config in enumerate(profile.plugin_config):
            if config.name in seen:
                yield duplicate(f"profiles[{index}].pluginConfig[{place}]", config.name)
            seen.add(config.name)


def _profiles(profiles: tuple[_Profile, ...], gates: FeatureGates) -> Iterable[Profile]:
    """The profiles over the default one; the default name is given only to a profile that stands alone."""
    alone = len(profiles) <= 1
    for profile in profiles or (_Profile(),):
        name = profile.scheduler_name
        yield Profile(
            scheduler_name=DEFAULT_SCHEDULER_NAME if name is None and alone else name or "",
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            plugins=merge_plugins(default_plugins(gates), _plugins(profile.plugins)),
            plugin_config={config.name: config.args for config in profile.plugin_config},
        )


def _plugins(plugins: _Plugins | None) -> Plugins | None:
    """The plugin sets, keyed by extension point; an empty set says as little as none."""
    if plugins is None:
        return None
    sets = {field.encode_name: getattr(plugins, field.name) for field in msgspec.structs.fields(plugins)}
    points = {point: _plugin_set(sets[point]) for point in ExtensionPoint if sets[point] != _PluginSet()}
    return Plugins(multi_point=_plugin_set(plugins.multi_point), points=points)


def _plugin_set(plugin_set: _PluginSet) -> PluginSet:
    """One set; the weight of a disabled plugin means nothing."""
    return PluginSet(
        enabled=tuple(PluginRef(plugin.name, plugin.weight) for plugin in plugin_set.enabled),
        disabled=tuple(PluginRef(plugin.name) for plugin in plugin_set.disabled),
    )


def _extender(extender: _Extender) -> Extender:
    """One extender; a timeout of zero means the default."""
    tls = extender.tls_config
    return Extender(
        url_prefix=extender.url_prefix,
        filter_verb=extender.filter_verb,
        preempt_verb=extender.preempt_verb,
        prioritize_verb=extender.prioritize_verb,
        weight=extender.weight,
        bind_verb=extender.bind_verb,
        enable_https=extender.enable_https,
        tls=None if tls is None else ExtenderTLS(**msgspec.structs.asdict(tls)),
        http_timeout_s=float(extender.http_timeout) or _DEFAULT_EXTENDER_TIMEOUT_S,
        node_cache_capable=extender.node_cache_capable,
        managed_resources=tuple(
            ManagedResource(each.name, each.ignored_by_scheduler) for each in extender.managed_resources
        ),
        ignorable=extender.ignorable,
    )


def _leader_election(doc: _LeaderElection) -> LeaderElection:
    """Leader election; zero durations and empty names mean the defaults, as upstream."""
    default = LeaderElection()
    return LeaderElection(
        leader_elect=doc.leader_elect,
        lease_duration_s=float(doc.lease_duration) or default.lease_duration_s,
        renew_deadline_s=float(doc.renew_deadline) or default.renew_deadline_s,
        retry_period_s=float(doc.retry_period) or default.retry_period_s,
        resource_lock=doc.resource_lock or default.resource_lock,
        resource_name=doc.resource_name or default.resource_name,
        resource_namespace=doc.resource_namespace or default.resource_namespace,
    )


def _client_connection(doc: _ClientConnection) -> ClientConnection:
    """The client connection; zero rates mean the defaults, as upstream."""
    default = ClientConnection()
    return ClientConnection(
        kubeconfig=doc.kubeconfig,
        accept_content_types=doc.accept_content_types,
        content_type=doc.content_type or default.content_type,
        qps=doc.qps or default.qps,
        burst=doc.burst or default.burst,
    )
