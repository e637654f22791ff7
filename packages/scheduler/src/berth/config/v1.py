"""`kubescheduler.config.k8s.io/v1`: the document as written in, the internal configuration with defaults out.

Called by `load`. The structs are the document's schema, field by field; None means that the document leaves
a field out, which distinguishes a default from an explicit zero. Values are checked afterwards, by
`validation`.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from berth.config.decode import Decoder
from berth.config.defaults import default_plugins, merge_plugins
from berth.config.errors import ConfigError
from berth.config.feature_gates import FeatureGates
from berth.config.parts import (
    ClientConnectionDoc,
    Doc,
    ExtenderDoc,
    Int32,
    Int64,
    LeaderElectionDoc,
    PluginConfigDoc,
    PluginsDoc,
    client_connection_of,
    extender_of,
    leader_election_of,
    plugins_of,
    repeated_plugin_config,
)
from berth.config.types import DEFAULT_SCHEDULER_NAME, KubeSchedulerProfile, SchedulerConfiguration, Shadow

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

# Fields of older versions that people still write.
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


class _Shadow(Doc, frozen=True):
    of: str
    percentage: float | None = None


class _KubeSchedulerProfile(Doc, frozen=True):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: PluginsDoc | None = None
    plugin_config: tuple[PluginConfigDoc, ...] = ()
    shadow: _Shadow | None = None
    """Berth's own: upstream refuses documents that have it."""


class _Configuration(Doc, frozen=True):
    api_version: str
    kind: str
    parallelism: Int32 | None = None
    leader_election: LeaderElectionDoc = LeaderElectionDoc()
    client_connection: ClientConnectionDoc = ClientConnectionDoc()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: tuple[_KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderDoc, ...] = ()
    delay_cache_until_active: bool = False


def convert(document: Mapping[str, Any], gates: FeatureGates) -> SchedulerConfiguration:
    """The internal configuration of a v1 document; raises ConfigError with everything that does not fit."""
    decoder = Decoder(_HINTS)
    doc = decoder.decode(document, _Configuration)
    if doc is None:
        raise ConfigError(decoder.errors)
    configs = ((f"profiles[{index}].pluginConfig", each.plugin_config) for index, each in enumerate(doc.profiles))
    if errors := [error for path, given in configs for error in repeated_plugin_config(given, path)]:
        raise ConfigError(errors)
    profiling = doc.enable_profiling is not False
    contention = doc.enable_contention_profiling
    return SchedulerConfiguration(
        profiles=tuple(_profiles(doc.profiles, gates)),
        extenders=tuple(map(extender_of, doc.extenders)),
        parallelism=16 if doc.parallelism is None else doc.parallelism,
        percentage_of_nodes_to_score=doc.percentage_of_nodes_to_score,
        pod_initial_backoff_s=_or(doc.pod_initial_backoff_seconds, 1),
        pod_max_backoff_s=_or(doc.pod_max_backoff_seconds, 10),
        leader_election=leader_election_of(doc.leader_election),
        client_connection=client_connection_of(doc.client_connection),
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


def _profiles(profiles: tuple[_KubeSchedulerProfile, ...], gates: FeatureGates) -> Iterable[KubeSchedulerProfile]:
    """The profiles over the default one; the default name is given only to a profile that stands alone."""
    alone = len(profiles) <= 1
    for profile in profiles or (_KubeSchedulerProfile(),):
        name = profile.scheduler_name
        yield KubeSchedulerProfile(
            scheduler_name=DEFAULT_SCHEDULER_NAME if name is None and alone else name or "",
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
            plugins=merge_plugins(default_plugins(gates), plugins_of(profile.plugins)),
            plugin_config={config.name: config.args for config in profile.plugin_config},
            shadow=_shadow(profile.shadow),
        )


def _shadow(doc: _Shadow | None) -> Shadow | None:
    if doc is None:
        return None
    return Shadow(doc.of, 100.0 if doc.percentage is None else doc.percentage)
