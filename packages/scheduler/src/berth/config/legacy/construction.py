"""Makes a configuration with all its plugins from a document of v1.20's time and the source of its algorithm.

Called by `berth.config.load` and, once a ConfigMap has been read, by the live process (`with_policy_text`).
"""

from pathlib import Path
from typing import Any

import msgspec

from berth.config.document import parse_document
from berth.config.errors import ConfigError, errors_in
from berth.config.feature_gates import FeatureGates
from berth.config.legacy.documents import KIND, V1BETA1, AlgorithmSource, convert
from berth.config.legacy.policy import CONFIG_MAP_KEY, Policy, parse_policy
from berth.config.legacy.predicates import policy_plugins
from berth.config.legacy.providers import GENERATION
from berth.config.types import ExtensionPoint, KubeSchedulerProfile, Plugins, PluginSet, SchedulerConfiguration

NO_PLUGIN_SETTINGS = "cannot set a Plugin config and Policy config: take plugins and pluginConfig out of the profiles"


def legacy_config(
    document: Any, gates: FeatureGates, source: AlgorithmSource | None = None, policy: Any | None = None
) -> SchedulerConfiguration:
    """Return the configuration of a document (None: the defaults), of a source given by flags, of a parsed `policy`.

    A Policy in a file is read here; of one in a ConfigMap only the name is noted. Raises ConfigError.
    """
    gates = gates.of(GENERATION)
    converted = convert(document or {"apiVersion": V1BETA1, "kind": KIND}, gates, source)
    is_policy = policy is not None or converted.source.is_policy
    if is_policy and converted.has_plugin_settings:
        raise ConfigError([NO_PLUGIN_SETTINGS])
    if policy is not None:
        return with_policy(converted.config, parse_policy(policy))
    path = converted.source.policy_file
    return converted.config if path is None else _with_policy_file(converted.config, path)


def _with_policy_file(config: SchedulerConfiguration, path: str) -> SchedulerConfiguration:
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError([f"missing policy config file {path}"]) from None
    except OSError as error:
        raise ConfigError([f"couldn't read policy config: {error.strerror or error}"], path) from None
    return _with_text(config, text, path)


def with_config_map(config: SchedulerConfiguration, data: dict[str, str]) -> SchedulerConfiguration:
    """Return the configuration with the Policy from the data of its ConfigMap. Raises ConfigError."""
    namespace, name = config.policy_config_map or ("", "")
    where = f"ConfigMap {namespace}/{name}"
    if CONFIG_MAP_KEY not in data:
        raise ConfigError([f'missing policy config map value at key "{CONFIG_MAP_KEY}"'], where)
    return _with_text(config, data[CONFIG_MAP_KEY].encode(), f"{where}, {CONFIG_MAP_KEY}")


def _with_text(config: SchedulerConfiguration, text: bytes, where: str) -> SchedulerConfiguration:
    with errors_in(where):
        return with_policy(config, parse_policy(parse_document(text, where)))


def with_policy(config: SchedulerConfiguration, policy: Policy) -> SchedulerConfiguration:
    """Return the configuration with a Policy's plugins in every profile, and its extenders. Raises ConfigError."""
    asked = policy_plugins(policy, config.feature_gates)
    profiles = tuple(
        msgspec.structs.replace(
            profile,
            plugins=_without_preemption_as_in(profile, asked.plugins),
            plugin_config={**profile.plugin_config, **asked.plugin_config},
        )
        for profile in config.profiles
    )
    return msgspec.structs.replace(
        config,
        profiles=profiles,
        extenders=policy.extenders,
        checks_all_filters=policy.always_check_all_predicates,
        policy_config_map=None,
    )


def _without_preemption_as_in(profile: KubeSchedulerProfile, plugins: Plugins) -> Plugins:
    """Return the plugins, without preemption where a document of v1alpha1 or v1alpha2 switched that off."""
    if profile.plugins.at(ExtensionPoint.POST_FILTER).enabled:
        return plugins
    return Plugins(points={**plugins.points, ExtensionPoint.POST_FILTER: PluginSet()})
