"""Converts `KubeSchedulerConfiguration` of v1alpha1, v1alpha2 and v1beta1 to the internal configuration.

Called by `load`. Each version is first converted to profiles; a field that a version does not have is unknown in it.
v1alpha1 has one profile, at the top level, and says where the algorithm comes from, which the other versions leave to
flags. What v1alpha1 calls postFilter was called preScore later.
Source: release-1.18 and release-1.20, staging/src/k8s.io/kube-scheduler/config and pkg/scheduler/apis/config.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from berth.config.decode import Decoder
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.legacy.providers import DEFAULT_PROVIDER, GENERATION, applied, duplicates, provider_plugins
from berth.config.parts import (
    ClientConnectionDoc,
    Doc,
    ExtenderDoc,
    Int32,
    Int64,
    LeaderElectionDoc,
    PluginConfigDoc,
    PluginSetDoc,
    client_connection_of,
    extender_of,
    leader_election_of,
    plugins_of,
    repeated_plugin_config,
)
from berth.config.types import (
    DEFAULT_SCHEDULER_NAME,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    PluginSet,
    SchedulerConfiguration,
)
from berth.config.types import ExtensionPoint as Point

KIND: Final = "KubeSchedulerConfiguration"
V1ALPHA1: Final = "kubescheduler.config.k8s.io/v1alpha1"
V1ALPHA2: Final = "kubescheduler.config.k8s.io/v1alpha2"
V1BETA1: Final = "kubescheduler.config.k8s.io/v1beta1"

NO_PREEMPTION: Final = PluginSet(disabled=(PluginRef("DefaultPreemption"),))

_HINTS: Final = MappingProxyType(
    {
        "algorithmSource": "only v1alpha1 has it; use --algorithm-provider, --policy-config-file or --policy-configmap",
        "schedulerName": "it belongs to a profile: profiles[].schedulerName",
        "plugins": "it belongs to a profile: profiles[].plugins",
        "pluginConfig": "it belongs to a profile: profiles[].pluginConfig",
        "profiles": "v1alpha1 has one profile, at the top level; move to v1beta1 for several",
        "extenders": "v1alpha1 takes extenders from a Policy; move to v1beta1 to list them here",
        "hardPodAffinitySymmetricWeight": "set hardPodAffinityWeight in the args of InterPodAffinity",
        "bindTimeoutSeconds": "set bindTimeoutSeconds in the args of VolumeBinding",
        "disablePreemption": "disable DefaultPreemption under profiles[].plugins.postFilter",
        "multiPoint": "v1.20 has no multiPoint; name the extension points",
        "featureGates": "feature gates are set with the flag --feature-gates",
    }
)


class _PolicyFileDoc(Doc, frozen=True):
    path: str


class _ConfigMapDoc(Doc, frozen=True):
    name: str
    namespace: str = "kube-system"


class _PolicySourceDoc(Doc, frozen=True):
    file: _PolicyFileDoc | None = None
    config_map: _ConfigMapDoc | None = None


class _SourceDoc(Doc, frozen=True):
    policy: _PolicySourceDoc | None = None
    provider: str | None = None


class _Plugins(Doc, frozen=True):
    queue_sort: PluginSetDoc = PluginSetDoc()
    pre_filter: PluginSetDoc = PluginSetDoc()
    filter: PluginSetDoc = PluginSetDoc()
    score: PluginSetDoc = PluginSetDoc()
    reserve: PluginSetDoc = PluginSetDoc()
    permit: PluginSetDoc = PluginSetDoc()
    pre_bind: PluginSetDoc = PluginSetDoc()
    bind: PluginSetDoc = PluginSetDoc()
    post_bind: PluginSetDoc = PluginSetDoc()


class _PluginsBeta(_Plugins, frozen=True):
    post_filter: PluginSetDoc = PluginSetDoc()
    pre_score: PluginSetDoc = PluginSetDoc()


class _PluginsAlpha2(_PluginsBeta, frozen=True):
    unreserve: PluginSetDoc = PluginSetDoc()


class _PluginsAlpha1(_Plugins, frozen=True):
    pre_score: PluginSetDoc = msgspec.field(default=PluginSetDoc(), name="postFilter")
    unreserve: PluginSetDoc = PluginSetDoc()


class _ProfileBeta(Doc, frozen=True):
    scheduler_name: str | None = None
    plugins: _PluginsBeta | None = None
    plugin_config: tuple[PluginConfigDoc, ...] = ()


class _ProfileAlpha2(Doc, frozen=True):
    scheduler_name: str | None = None
    plugins: _PluginsAlpha2 | None = None
    plugin_config: tuple[PluginConfigDoc, ...] = ()


class _LockDoc(LeaderElectionDoc, frozen=True):
    lock_object_namespace: str = ""
    lock_object_name: str = ""


class _Common(Doc, frozen=True, kw_only=True):
    api_version: str
    kind: str
    client_connection: ClientConnectionDoc = ClientConnectionDoc()
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None


class _Beta(_Common, frozen=True, kw_only=True):
    parallelism: Int32 | None = None
    leader_election: LeaderElectionDoc = LeaderElectionDoc()
    profiles: tuple[_ProfileBeta, ...] = ()
    extenders: tuple[ExtenderDoc, ...] = ()


class _Alpha2(_Common, frozen=True, kw_only=True):
    leader_election: LeaderElectionDoc = LeaderElectionDoc()
    disable_preemption: bool = False
    bind_timeout_seconds: Int64 | None = None
    profiles: tuple[_ProfileAlpha2, ...] = ()
    extenders: tuple[ExtenderDoc, ...] = ()


class _Alpha1(_Common, frozen=True, kw_only=True):
    leader_election: _LockDoc = _LockDoc()
    disable_preemption: bool = False
    bind_timeout_seconds: Int64 | None = None
    scheduler_name: str | None = None
    algorithm_source: _SourceDoc = _SourceDoc()
    hard_pod_affinity_symmetric_weight: Int32 | None = None
    plugins: _PluginsAlpha1 | None = None
    plugin_config: tuple[PluginConfigDoc, ...] = ()


_SCHEMAS: Final[Mapping[str, type[_Beta | _Alpha2 | _Alpha1]]] = MappingProxyType(
    {V1BETA1: _Beta, V1ALPHA2: _Alpha2, V1ALPHA1: _Alpha1}
)
API_VERSIONS: Final = tuple(_SCHEMAS)


class AlgorithmSource(msgspec.Struct, frozen=True):
    """Where the algorithm comes from: a provider, or a Policy in a file or a ConfigMap (namespace, name)."""

    provider: str = DEFAULT_PROVIDER
    policy_file: str | None = None
    policy_config_map: tuple[str, str] | None = None

    @property
    def is_policy(self) -> bool:
        """Say whether it is a Policy."""
        return self.policy_file is not None or self.policy_config_map is not None


class Converted(msgspec.Struct, frozen=True):
    """A configuration with the provider's plugins, and what remains to be done."""

    config: SchedulerConfiguration
    source: AlgorithmSource
    has_plugin_settings: bool
    """Whether the document configures plugins, which cannot be combined with a Policy."""


class _Settings(msgspec.Struct, frozen=True):
    """One profile as a document gives it, whatever its version."""

    name: str | None
    plugins: Plugins | None
    config: tuple[PluginConfigDoc, ...]
    path: str


def convert(document: Mapping[str, Any], gates: FeatureGates, source: AlgorithmSource | None = None) -> Converted:
    """Convert a document; `source` comes from flags and wins. Raises ConfigError with everything that is wrong."""
    decoder = Decoder(_HINTS)
    doc = decoder.decode(document, _SCHEMAS[document["apiVersion"]])
    if doc is None:
        raise ConfigError(decoder.errors)
    profiles = tuple(_settings(doc))
    if errors := [
        error for each in profiles for error in repeated_plugin_config(each.config, f"{each.path}pluginConfig")
    ]:
        raise ConfigError(errors)
    source = source or _source(doc)
    provider = provider_plugins(source.provider, gates)
    twice = (duplicates(provider, each.plugins, f"{each.path}plugins") for each in profiles)
    if errors := [error for found in twice for error in found]:
        raise ConfigError(errors)
    profiling = doc.enable_profiling is not False
    contention = doc.enable_contention_profiling
    config = SchedulerConfiguration(
        profiles=tuple(_profile(each, provider, doc, alone=len(profiles) == 1) for each in profiles),
        extenders=() if isinstance(doc, _Alpha1) else tuple(map(extender_of, doc.extenders)),
        parallelism=16 if not isinstance(doc, _Beta) or doc.parallelism is None else doc.parallelism,
        percentage_of_nodes_to_score=doc.percentage_of_nodes_to_score,
        pod_initial_backoff_s=1 if doc.pod_initial_backoff_seconds is None else doc.pod_initial_backoff_seconds,
        pod_max_backoff_s=10 if doc.pod_max_backoff_seconds is None else doc.pod_max_backoff_seconds,
        leader_election=leader_election_of(_with_lock_names(doc.leader_election)),
        client_connection=client_connection_of(doc.client_connection),
        enable_profiling=profiling,
        enable_contention_profiling=profiling if contention is None else contention,
        healthz_bind_address=doc.healthz_bind_address,
        metrics_bind_address=doc.metrics_bind_address,
        policy_config_map=source.policy_config_map,
        feature_gates=gates,
        generation=GENERATION,
    )
    return Converted(config, source, any(each.plugins is not None or each.config for each in profiles))


def _settings(doc: _Beta | _Alpha2 | _Alpha1) -> list[_Settings]:
    if isinstance(doc, _Alpha1):
        return [_Settings(doc.scheduler_name, _with_unreserve(doc.plugins), doc.plugin_config, "")]
    given: Sequence[_ProfileBeta | _ProfileAlpha2] = doc.profiles
    found = [
        _Settings(each.scheduler_name, _with_unreserve(each.plugins), each.plugin_config, f"profiles[{index}].")
        for index, each in enumerate(given)
    ]
    return found or [_Settings(None, None, (), "")]


def _with_unreserve(doc: _PluginsAlpha1 | _PluginsAlpha2 | _PluginsBeta | None) -> Plugins | None:
    """Return the plugin sets, with the plugins of unreserve at reserve, which includes it now."""
    plugins = plugins_of(doc)
    if plugins is None or not isinstance(doc, _PluginsAlpha1 | _PluginsAlpha2):
        return plugins
    reserve = plugins.at(Point.RESERVE)
    named = {plugin.name for plugin in reserve.enabled}
    more = tuple(PluginRef(plugin.name) for plugin in doc.unreserve.enabled if plugin.name not in named)
    if not more:
        return plugins
    both = PluginSet(reserve.enabled + more, reserve.disabled)
    return Plugins(points={**plugins.points, Point.RESERVE: both})


def _profile(
    each: _Settings, provider: Plugins, doc: _Beta | _Alpha2 | _Alpha1, *, alone: bool
) -> KubeSchedulerProfile:
    """One profile over the provider; top-level fields of the alpha versions become args."""
    plugins = applied(provider, each.plugins)
    extra: dict[str, Any] = {}
    if not isinstance(doc, _Beta):
        if doc.disable_preemption:
            plugins = applied(plugins, Plugins(points={Point.POST_FILTER: NO_PREEMPTION}))
        if doc.bind_timeout_seconds is not None:
            extra["VolumeBinding"] = {"bindTimeoutSeconds": doc.bind_timeout_seconds}
    if isinstance(doc, _Alpha1) and doc.hard_pod_affinity_symmetric_weight is not None:
        extra["InterPodAffinity"] = {"hardPodAffinityWeight": doc.hard_pod_affinity_symmetric_weight}
    return KubeSchedulerProfile(
        scheduler_name=DEFAULT_SCHEDULER_NAME if each.name is None and alone else each.name or "",
        plugins=plugins,
        plugin_config={**extra, **{config.name: config.args for config in each.config}},
    )


def _source(doc: _Beta | _Alpha2 | _Alpha1) -> AlgorithmSource:
    if not isinstance(doc, _Alpha1):
        return AlgorithmSource()
    given = doc.algorithm_source
    if given.policy is None:
        return AlgorithmSource(given.provider or DEFAULT_PROVIDER)
    policy = given.policy
    if given.provider is not None or (policy.file is None) == (policy.config_map is None):
        raise ConfigError(
            ["algorithmSource: unsupported algorithm source: give one of provider, policy.file, policy.configMap"]
        )
    if policy.file is not None:
        return AlgorithmSource(policy_file=policy.file.path)
    assert policy.config_map is not None
    return AlgorithmSource(policy_config_map=(policy.config_map.namespace, policy.config_map.name))


def _with_lock_names(doc: LeaderElectionDoc) -> LeaderElectionDoc:
    """v1alpha1's lockObject fields under the names that came after them."""
    if not isinstance(doc, _LockDoc):
        return doc
    return msgspec.structs.replace(
        doc,
        resource_name=doc.resource_name or doc.lock_object_name,
        resource_namespace=doc.resource_namespace or doc.lock_object_namespace,
    )
