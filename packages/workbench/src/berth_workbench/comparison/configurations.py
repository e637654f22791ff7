"""A configuration as it was given, before it is loaded: it describes a run, and workers load it."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth.config.feature_gates import parse_feature_gates
from berth.config.load import NamedPlugins, document_enabling, load_config, order_of
from berth.config.v1 import API_VERSION
from berth.framework.loader import plugins_named
from berth.framework.setup import Setup
from berth.plugins.registry import full_registry

DEFAULT = "default"
"""The name of the configuration that applies where none is given."""


_DECIDING: Final = (
    "apiVersion",
    "kind",
    "profiles",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)
"""The fields of a configuration that decisions depend on, but for the extenders."""


class ConfigurationSource(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration: its document as JSON, and the plugins that are not installed."""

    name: str
    document: str = ""
    """Empty for the default configuration, with the plugins enabled."""
    plugins: tuple[str, ...] = ()
    """As `--plugin` takes them."""
    feature_gates: str = ""

    @classmethod
    def of_file(
        cls, path: str | Path, plugins: Sequence[str] = (), feature_gates: str = "", *, name: str = ""
    ) -> "ConfigurationSource":
        """Read a configuration file; its name is the file's, unless another is given. Raises `ConfigError`."""
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            raise ConfigError([f"cannot read the configuration file: {error.strerror or error}"], str(path)) from None
        found = cls.of_document(name or Path(path).name, parse_document(text, str(path)), plugins, feature_gates)
        found.load()
        return found

    @classmethod
    def of_document(
        cls, name: str, document: Any, plugins: Sequence[str] = (), feature_gates: str = ""
    ) -> "ConfigurationSource":
        """Take a document as parsed YAML or JSON has it."""
        return cls(name, msgspec.json.encode(document).decode(), tuple(plugins), feature_gates)

    @classmethod
    def of_configz(cls, told: Mapping[str, Any]) -> "ConfigurationSource":
        """Take the answer of a scheduler, Berth or the stock one, at `/configz`.

        Whatever decisions do not depend on is left out: serving, leader election, the files for calling extenders.
        Raises `ValueError` for a scheduler whose configuration no document of today can say.
        """
        document = told.get("componentconfig")
        if not isinstance(document, Mapping):
            raise ValueError("the scheduler's answer at /configz has no componentconfig; name the file with --config")
        if told.get("generation", "v1.36") != "v1.36":
            raise ValueError(f"the scheduler decides as {told['generation']} did; name its configuration with --config")
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in (told.get("featureGates") or {}).items())
        return cls.of_document("the scheduler's", _deciding(document), feature_gates=gates)

    def load(self) -> Setup:
        """Return the checked configuration, and all plugins there are. Raises `ConfigError`."""
        gates = parse_feature_gates(self.feature_gates)
        named = plugins_named(self.plugins)
        document = msgspec.json.decode(self.document) if self.document else document_enabling(named.implements())
        config = load_config(document, self.name, gates)
        return Setup(config, full_registry(named))

    def deciding(self) -> dict[str, Any]:
        """Return the document as far as decisions depend on it."""
        named = plugins_named(self.plugins)
        return _deciding(msgspec.json.decode(self.document) if self.document else document_enabling(named.implements()))

    @property
    def asks_extenders(self) -> bool:
        """Whether the document has extenders: outside processes, to which nothing is sent from here."""
        return bool(self.document) and bool(msgspec.json.decode(self.document).get("extenders"))

    def content(self) -> list[Any]:
        """Return everything that a run of this configuration depends on, except its name; plugins' files by their
        hash.
        """
        files = [name.rpartition(":")[0] for name in self.plugins]
        hashes = [hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else "" for file in files]
        return [self.document, list(self.plugins), hashes, self.feature_gates]


class WhoDecides(NamedTuple):
    """The scheduler whose decisions count, and in words why it is this one."""

    configuration: ConfigurationSource
    setup: Setup
    assumed: str


def _deciding(document: Mapping[str, Any]) -> dict[str, Any]:
    if document.get("apiVersion") != API_VERSION:  # documents of v1.20's time say it in other fields
        return dict(document)
    found = {field: document[field] for field in _DECIDING if field in document}
    if extenders := document.get("extenders"):
        found["extenders"] = [{**each, "tlsConfig": None} for each in extenders]
    return found


def enabling(document: Mapping[str, Any], named: NamedPlugins) -> dict[str, Any]:
    """Return a configuration in which these plugins are enabled in all profiles that do not name them yet.

    One that orders the queue takes the place of the plugin that did.
    """
    profiles = [dict(each) for each in document.get("profiles") or [{}]]
    for profile in profiles:
        plugins = profile["plugins"] = dict(profile.get("plugins") or {})
        sets = [each for each in plugins.values() if isinstance(each, Mapping)]
        known = {one.get("name") for each in sets for one in each.get("enabled") or ()}
        if new := {name: points for name, points in named.items() if name not in known}:
            everywhere = dict(plugins.get("multiPoint") or {})
            enabled = [*(everywhere.get("enabled") or ()), *({"name": name} for name in new)]
            plugins |= {"multiPoint": {**everywhere, "enabled": enabled}, **order_of(new)}
    return {**document, "profiles": profiles}
