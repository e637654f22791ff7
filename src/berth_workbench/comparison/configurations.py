"""A configuration as somebody gave it, before it is loaded: what a run is described by, and what a worker loads."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from berth.config.document import parse_document
from berth.config.errors import ConfigError
from berth.config.feature_gates import parse_feature_gates
from berth.config.load import document_enabling, load_config
from berth.config.types import SchedulerConfiguration
from berth.framework.loader import plugins_named
from berth.framework.registry import Registry
from berth.plugins.registry import full_registry

DEFAULT = "default"
"""The name of the configuration that applies where none is given."""


class LoadedConfiguration(NamedTuple):
    """What a core is made from."""

    config: SchedulerConfiguration
    registry: Registry


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

    def load(self) -> LoadedConfiguration:
        """Return the checked configuration without its extenders, which are not asked. Raises `ConfigError`."""
        gates = parse_feature_gates(self.feature_gates)
        named = plugins_named(self.plugins)
        document = msgspec.json.decode(self.document) if self.document else document_enabling(named.names)
        config = load_config(document, self.name, gates)
        return LoadedConfiguration(msgspec.structs.replace(config, extenders=()), full_registry(named))

    @property
    def asks_extenders(self) -> bool:
        """Whether the document has extenders: processes elsewhere, that nothing here is sent to."""
        return bool(self.document) and bool(msgspec.json.decode(self.document).get("extenders"))

    def content(self) -> list[Any]:
        """Return all that a run of this configuration depends on, but for the name; plugins' files by their hash."""
        files = [name.rpartition(":")[0] for name in self.plugins]
        hashes = [hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else "" for file in files]
        return [self.document, list(self.plugins), hashes, self.feature_gates]
