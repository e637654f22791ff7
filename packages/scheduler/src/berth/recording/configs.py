"""A configuration as a recording holds it: everything that decisions depend on, and no secrets."""

from typing import Any

import msgspec

from berth.api.redaction import redact_document, redact_url
from berth.config.types import ExtenderConfig, SchedulerConfiguration
from berth.recording.errors import RecordingError
from berth.recording.objects import plain_mapping


def plain_config(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return a configuration in plain values, without keys, passwords and where the kubeconfig lies."""
    profiles = tuple(
        msgspec.structs.replace(profile, plugin_config=redact_document(profile.plugin_config))
        for profile in config.profiles
    )
    shown = msgspec.structs.replace(
        config,
        profiles=profiles,
        extenders=tuple(map(_without_secrets, config.extenders)),
        client_connection=msgspec.structs.replace(config.client_connection, kubeconfig=""),
        source="",
    )
    plain: dict[str, Any] = msgspec.to_builtins(shown, enc_hook=plain_mapping)
    return plain


def _without_secrets(extender: ExtenderConfig) -> ExtenderConfig:
    return msgspec.structs.replace(extender, url_prefix=redact_url(extender.url_prefix), tls=None)


def config_of(plain: dict[str, Any]) -> SchedulerConfiguration:
    """Return the configuration that was recorded. Raises `RecordingError`."""
    try:
        found = msgspec.convert(plain, SchedulerConfiguration)
    except msgspec.ValidationError as error:
        raise RecordingError(f"the recorded configuration cannot be read: {error}") from None
    return msgspec.structs.replace(found, source="the recorded configuration")
