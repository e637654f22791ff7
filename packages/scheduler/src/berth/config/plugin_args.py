"""Decodes plugin args: from the raw JSON values of a profile to the struct that the plugin declares, checked.

Args types live beside their plugins, so the name → type map is handed in by the caller, which has the registry (the
framework, `--write-config-to`). A type is a frozen msgspec struct whose defaults are the plugin's defaults
and whose fields are camelCase in JSON (`rename="camel"`); what types cannot say goes into an optional
`validate` method.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from berth.config.decode import Decoder
from berth.config.errors import ConfigError, invalid, shown
from berth.config.feature_gates import FeatureGates
from berth.config.types import KubeSchedulerProfile
from berth.config.v1 import API_VERSION

DEFAULT_GATES: Final = FeatureGates()

T = TypeVar("T", bound=msgspec.Struct)

ArgsTypes = Mapping[str, type[msgspec.Struct]]
"""The args struct of every plugin that declares one, by plugin name."""


@runtime_checkable
class PluginArgs(Protocol):
    """What an args struct may offer beyond its fields."""

    def validate(self, path: str) -> Iterable[str]:
        """Everything wrong with the values, one sentence each that begins with the field's path under `path`.

        `berth.config.errors` has the functions that make such sentences.
        """


@runtime_checkable
class DefaultedArgs(Protocol):
    """An args struct with defaults that depend on other values, such as a weight of 0 that means 1."""

    def defaulted(self) -> Any:
        """The same args with those defaults filled in; called before `validate`."""


@runtime_checkable
class GatedArgs(Protocol):
    """An args struct with fields that only exist while some feature gate is on.

    Setting such a field while its gate is off is an error: otherwise the value would take effect, to the user's
    surprise, when the gate is turned on later.
    """

    def gate_faults(self, path: str, gates: FeatureGates) -> Iterable[str]:
        """What is set although its gate is off, one sentence each; asked before defaults are filled in."""

    def defaulted_by_gates(self, gates: FeatureGates) -> Any:
        """The same args with the defaults of fields whose gates are on; called before `validate`."""


def decode_plugin_args(name: str, raw: Any, args_type: type[T], path: str, gates: FeatureGates = DEFAULT_GATES) -> T:
    """The args of one plugin; `path` is where they stand. Raises ConfigError with all that is wrong."""
    args, errors = _decoded(name, raw, args_type, path, gates)
    if args is None:
        raise ConfigError(errors)
    return args


def decode_profile_args(
    profile: KubeSchedulerProfile,
    args_types: ArgsTypes,
    path: str = "profiles[0]",
    names: Iterable[str] | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> dict[str, Any]:
    """The args of the plugins in `names`, or of all with a type or args, by plugin name.

    Plugins that the document does not configure get their defaults; raw JSON values stay raw where no type is
    declared. Raises ConfigError with the faults of all plugins together.
    """
    wanted = set(names) if names is not None else set(args_types)
    places = {name: index for index, name in enumerate(profile.plugin_config)}
    found: dict[str, Any] = {}
    errors: list[str] = []
    for name in (*places, *sorted(wanted - set(places))):
        raw = profile.plugin_config.get(name)
        if name in args_types:
            where = f"{path}.pluginConfig[{places[name] if name in places else shown(name)}].args"
            args, faults = _decoded(name, raw, args_types[name], where, gates)
            errors += faults
            found[name] = args
        elif name in profile.plugin_config:
            found[name] = raw
    if errors:
        raise ConfigError(errors)
    return found


def _decoded(name: str, raw: Any, args_type: type[T], path: str, gates: FeatureGates) -> tuple[T | None, list[str]]:
    """Decode, default and validate; either args or errors."""
    body, errors = _without_type_meta(name, raw, args_type, path)
    decoder = Decoder()
    args = decoder.decode(body, args_type, path)
    errors += decoder.errors
    if args is not None and isinstance(args, GatedArgs):
        errors += args.gate_faults(path, gates)
        args = args.defaulted_by_gates(gates)
    if args is not None and isinstance(args, DefaultedArgs):
        args = args.defaulted()
    if args is not None and isinstance(args, PluginArgs):
        errors += args.validate(path)
    return (None, errors) if errors else (args, [])


def _without_type_meta(name: str, raw: Any, args_type: type[T], path: str) -> tuple[Any, list[str]]:
    """The args without apiVersion and kind, which may only name the plugin's own type."""
    if raw is None:
        return {}, []
    declared = {field.encode_name for field in msgspec.structs.fields(args_type)}
    if not isinstance(raw, Mapping) or declared & {"apiVersion", "kind"}:
        return raw, []
    errors = []
    expected, kind = f"{name}Args", raw.get("kind")
    if kind not in (None, "", expected):  # it may be a list
        errors.append(f"{path}.kind: args for plugin {name} were not of type {expected}, got {kind}")
    version = raw.get("apiVersion")
    if version and version != API_VERSION:  # v1beta2 and v1beta3 went with the documents of these versions
        errors.append(invalid(f"{path}.apiVersion", version, f"leave it out or write {API_VERSION}"))
    return {key: value for key, value in raw.items() if key not in {"apiVersion", "kind"}}, errors
