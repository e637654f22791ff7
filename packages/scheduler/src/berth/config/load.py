"""Loads configuration files and documents as checked `SchedulerConfiguration`s. Called by the commands and by tests.

The document's apiVersion and kind choose the converter. What is wrong is raised as one ConfigError that
lists every fault with its field path.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from berth.config import v1
from berth.config.document import parse_document
from berth.config.errors import ConfigError, errors_in, required, unsupported
from berth.config.feature_gates import FeatureGates
from berth.config.legacy import documents as legacy
from berth.config.legacy import policy
from berth.config.legacy.construction import legacy_config
from berth.config.legacy.documents import AlgorithmSource
from berth.config.types import ExtensionPoint, KubeSchedulerProfile, SchedulerConfiguration
from berth.config.validation import validate

Converter = Callable[[Mapping[str, Any], FeatureGates, AlgorithmSource | None], SchedulerConfiguration]


def _todays(document: Mapping[str, Any], gates: FeatureGates, source: AlgorithmSource | None) -> SchedulerConfiguration:
    if source is not None:
        versions = ", ".join(legacy.API_VERSIONS)
        raise ConfigError([f"{v1.API_VERSION} has no policies and providers: leave the flags out, or use {versions}"])
    return v1.convert(document, gates.of("v1.36"))


def _policy(document: Mapping[str, Any], gates: FeatureGates, source: AlgorithmSource | None) -> SchedulerConfiguration:
    return legacy_config(None, gates, source, policy=document)


_CONVERTERS: Final[Mapping[tuple[str, str], Converter]] = MappingProxyType(
    {
        (v1.API_VERSION, v1.KIND): _todays,
        **{(version, legacy.KIND): legacy_config for version in legacy.API_VERSIONS},
        **{(version, policy.KIND): _policy for version in policy.API_VERSIONS},
    }
)
_REMOVED: Final = frozenset({"kubescheduler.config.k8s.io/v1beta2", "kubescheduler.config.k8s.io/v1beta3"})

_FIT: Final = "NodeResourcesFit"

DEFAULT_SOURCE: Final = "the default configuration"
"""What messages call a configuration that is in no file."""


def default_config(gates: FeatureGates | None = None) -> SchedulerConfiguration:
    """Return the configuration that applies without a file."""
    return load_config({"apiVersion": v1.API_VERSION, "kind": v1.KIND}, DEFAULT_SOURCE, gates)


NamedPlugins = Mapping[str, Collection[ExtensionPoint]]
"""Plugins that are to be enabled where no file says which are, each with the extension points that it takes part in."""

NONE_NAMED: Final[NamedPlugins] = MappingProxyType({})


def document_enabling(named: NamedPlugins) -> dict[str, Any]:
    """Return a document whose only profile has these plugins beside the default ones.

    One that orders the queue takes the place of the default order, as a profile has one order.
    """
    if not named:
        return {"apiVersion": v1.API_VERSION, "kind": v1.KIND}
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in named]}, **order_of(named)}
    return {"apiVersion": v1.API_VERSION, "kind": v1.KIND, "profiles": [{"plugins": plugins}]}


def order_of(named: NamedPlugins) -> dict[str, Any]:
    """Return what a profile says of the queue's order: those of the plugins that order it, in place of any other."""
    sorters = [{"name": name} for name, points in named.items() if ExtensionPoint.QUEUE_SORT in points]
    return {ExtensionPoint.QUEUE_SORT.value: {"disabled": [{"name": "*"}], "enabled": sorters}} if sorters else {}


def legacy_default_config(
    gates: FeatureGates | None = None, source: AlgorithmSource | None = None
) -> SchedulerConfiguration:
    """Return what v1.20 takes without a configuration file: a provider, or the Policy that flags name.

    Raises ConfigError."""
    where = "" if source is None else source.policy_file or ""
    with errors_in(where):
        config = legacy_config(None, gates or FeatureGates(), source)
        return checked(msgspec.structs.replace(config, source=where))


def load_config_file(
    path: str | Path, gates: FeatureGates | None = None, algorithm: AlgorithmSource | None = None
) -> SchedulerConfiguration:
    """Read a YAML or JSON file; raises ConfigError, also where the file cannot be read."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([f"cannot read the configuration file: {error.strerror or error}"], str(path)) from None
    return load_config(parse_document(text, str(path)), source=str(path), gates=gates, algorithm=algorithm)


def load_config(
    document: Any,
    source: str = "configuration",
    gates: FeatureGates | None = None,
    algorithm: AlgorithmSource | None = None,
) -> SchedulerConfiguration:
    """Convert, default and validate a parsed document; raises ConfigError that names `source`.

    `algorithm` is the provider or Policy given by flags, to which documents of v1.20's time leave the choice.
    """
    with errors_in(source):
        config = _converter(document)(document, gates or FeatureGates(), algorithm)
        return checked(msgspec.structs.replace(config, source=source))


def checked(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return the validated configuration, with extenders' resources ignored by plugins; raises ConfigError."""
    if errors := tuple(validate(config)):
        raise ConfigError(errors)
    return _with_ignored_resources(config)


def _converter(document: Any) -> Converter:
    """The converter for a document's apiVersion and kind."""
    if not isinstance(document, Mapping):
        found = "nothing" if document is None else type(document).__name__
        raise ConfigError([f"expected a mapping with apiVersion {v1.API_VERSION} and kind {v1.KIND}, got {found}"])
    version, kind = document.get("apiVersion"), document.get("kind")
    missing = [required(name, hint) for name, hint in _type_meta_hints() if not document.get(name)]
    if missing:
        raise ConfigError(missing)
    if not isinstance(version, str) or not isinstance(kind, str):
        raise ConfigError(["apiVersion and kind must be strings"])
    converter = _CONVERTERS.get((version, kind))
    if converter is None:
        raise ConfigError([_no_converter(version, kind)])
    return converter


def _type_meta_hints() -> tuple[tuple[str, str], tuple[str, str]]:
    """What every document begins with."""
    return ("apiVersion", f"write {v1.API_VERSION}"), ("kind", f"write {v1.KIND}")


def _no_converter(version: str, kind: str) -> str:
    """Why a document of this version and kind is not taken, and what to do."""
    if version in _REMOVED:
        return f"{version} is no longer served since v1.29; convert the file to {v1.API_VERSION}"
    kinds = [known_kind for known, known_kind in _CONVERTERS if known == version]
    if kinds:
        return unsupported("kind", kind, kinds)
    return unsupported("apiVersion", version, [v1.API_VERSION, *legacy.API_VERSIONS])


def _with_ignored_resources(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Have NodeResourcesFit ignore the resources that an extender manages and says to ignore."""
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not ignored:
        return config
    return msgspec.structs.replace(config, profiles=tuple(_ignoring(profile, ignored) for profile in config.profiles))


def _ignoring(profile: KubeSchedulerProfile, ignored: list[str]) -> KubeSchedulerProfile:
    """The profile with these ignored resources; upstream lets them replace the ones in the args."""
    args = profile.plugin_config.get(_FIT) or {}
    if not isinstance(args, Mapping):
        return profile  # the args are wrong in any case, which is reported when they are decoded
    merged = {**profile.plugin_config, _FIT: {**args, "ignoredResources": ignored}}
    return msgspec.structs.replace(profile, plugin_config=merged)
