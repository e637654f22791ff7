"""Writes the internal configuration as a v1 document, for `--write-config-to`.

Plugin args appear decoded and with their defaults, for the plugins that the profile enables and that have
any, so it takes the args types of the registry. Loading the result gives the same configuration again, unless there
were secrets in it: keys, and passwords in URLs and args, are left out, and a document without them is refused.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from berth.api.redaction import REDACTED, redact_document, redact_url
from berth.config.durations import Duration, format_duration_s
from berth.config.feature_gates import FeatureGates
from berth.config.plugin_args import ArgsTypes, decode_profile_args
from berth.config.types import (
    MULTI_POINT,
    ClientConnection,
    ExtenderConfig,
    ExtenderTLS,
    ExtensionPoint,
    KubeSchedulerProfile,
    LeaderElection,
    Plugins,
    PluginSet,
    SchedulerConfiguration,
)
from berth.config.v1 import API_VERSION, KIND


def dump_config(config: SchedulerConfiguration, args_types: ArgsTypes | None = None) -> dict[str, Any]:
    """The document, ready for a YAML or JSON writer; raises ConfigError where plugin args are wrong."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "clientConnection": _client_connection(config.client_connection),
        "enableContentionProfiling": config.enable_contention_profiling,
        "enableProfiling": config.enable_profiling,
        "leaderElection": _leader_election(config.leader_election),
        "parallelism": config.parallelism,
        "podInitialBackoffSeconds": config.pod_initial_backoff_s,
        "podMaxBackoffSeconds": config.pod_max_backoff_s,
        "profiles": [
            _profile(profile, args_types or {}, f"profiles[{index}]", config.feature_gates)
            for index, profile in enumerate(config.profiles)
        ],
    }
    # Upstream writes 0 for a field that was left out, because there both mean the adaptive formula. Here an
    # absent field means every node, so that writing 0 would change what the file says.
    if config.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = config.percentage_of_nodes_to_score
    if config.extenders:
        document["extenders"] = [_extender(extender) for extender in config.extenders]
    if config.delay_cache_until_active:
        document["delayCacheUntilActive"] = True
    return document


def _client_connection(client: ClientConnection) -> dict[str, Any]:
    return {
        "acceptContentTypes": client.accept_content_types,
        "burst": client.burst,
        "contentType": client.content_type,
        "kubeconfig": client.kubeconfig,
        "qps": _number(client.qps),
    }


def _leader_election(election: LeaderElection) -> dict[str, Any]:
    return {
        "leaderElect": election.leader_elect,
        "leaseDuration": format_duration_s(election.lease_duration_s),
        "renewDeadline": format_duration_s(election.renew_deadline_s),
        "resourceLock": election.resource_lock,
        "resourceName": election.resource_name,
        "resourceNamespace": election.resource_namespace,
        "retryPeriod": format_duration_s(election.retry_period_s),
    }


def _profile(profile: KubeSchedulerProfile, args_types: ArgsTypes, path: str, gates: FeatureGates) -> dict[str, Any]:
    """One profile with all of its plugins and args."""
    document: dict[str, Any] = {
        "pluginConfig": _plugin_config(profile, args_types, path, gates),
        "plugins": _plugins(profile.plugins),
        "schedulerName": profile.scheduler_name,
    }
    if profile.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    if profile.shadow is not None:
        document["shadow"] = {"of": profile.shadow.of, "percentage": _number(profile.shadow.percentage)}
    return document


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _plugin_config(
    profile: KubeSchedulerProfile, args_types: ArgsTypes, path: str, gates: FeatureGates
) -> list[dict[str, Any]]:
    """The args by plugin: what the document configures in its order, then other enabled plugins by name."""
    plugins = profile.plugins
    enabled = {
        plugin.name for plugin_set in (plugins.multi_point, *plugins.points.values()) for plugin in plugin_set.enabled
    }
    decoded = decode_profile_args(profile, args_types, path, enabled & set(args_types), gates)
    return [{"name": name, "args": _args(name, args)} for name, args in decoded.items()]


def _args(name: str, args: Any) -> Any:
    """Typed args as upstream writes them: their type first, and nothing that is unset or empty."""
    if not isinstance(args, msgspec.Struct):
        return redact_document(args)
    body = msgspec.to_builtins(_durations_as_text(args))
    return {"apiVersion": API_VERSION, "kind": f"{name}Args", **redact_document(_without_empty(body))}


def _durations_as_text(value: Any) -> Any:
    """Structs as mappings by document names, durations as text."""
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, msgspec.Struct):
        names = {field.name: field.encode_name for field in msgspec.structs.fields(value)}
        return {names[name]: _durations_as_text(part) for name, part in msgspec.structs.asdict(value).items()}
    if isinstance(value, Mapping):
        return {key: _durations_as_text(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_durations_as_text(item) for item in value]
    return value


def _without_empty(value: Any) -> Any:
    """A mapping without the fields that hold nothing; zeros, false and all items of lists stay."""
    if isinstance(value, Mapping):
        kept = {key: _without_empty(part) for key, part in value.items()}
        return {key: part for key, part in kept.items() if part not in (None, "", [], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _plugins(plugins: Plugins) -> dict[str, Any]:
    """Every extension point, also those where nothing is said."""
    points = {str(point): _plugin_set(plugins.at(point)) for point in ExtensionPoint}
    return {MULTI_POINT: _plugin_set(plugins.multi_point), **points}


def _plugin_set(plugin_set: PluginSet) -> dict[str, Any]:
    listed = {"enabled": plugin_set.enabled, "disabled": plugin_set.disabled}
    return {
        field: [{"name": plugin.name, "weight": plugin.weight} for plugin in refs]
        for field, refs in listed.items()
        if refs
    }


def _extender(extender: ExtenderConfig) -> dict[str, Any]:
    document = {
        "urlPrefix": redact_url(extender.url_prefix),
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": None if extender.tls is None else _tls(extender.tls),
        "httpTimeout": format_duration_s(extender.http_timeout_s),
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            {"name": resource.name, "ignoredByScheduler": resource.ignored_by_scheduler}
            for resource in extender.managed_resources
        ],
        "ignorable": extender.ignorable,
    }
    return {key: value for key, value in document.items() if value not in (None, "", 0, False, [])}


def _tls(tls: ExtenderTLS) -> dict[str, Any]:
    document = {
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "caFile": tls.ca_file,
        "certData": base64.b64encode(tls.cert_data).decode(),
        "keyData": REDACTED if tls.key_data else "",
        "caData": base64.b64encode(tls.ca_data).decode(),
    }
    return {key: value for key, value in document.items() if value}
