"""Sends spans to an OpenTelemetry collector: in batches, from a thread of its own, dropping what the collector cannot
take.

`berth run` calls `start_tracing` where `--tracing-config-file` asks for traces, and `stop` at the end. What the
document does not say comes from the environment variables that all of OpenTelemetry's exporters read:
OTEL_EXPORTER_OTLP_*, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME, OTEL_BSP_* (by default 2,048 spans wait at most, and
are sent every 5 seconds).
"""

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from berth import __version__
from berth.config.errors import ConfigError
from berth.config.tracing import TracingConfiguration
from berth.runtime.observing.tracing.pod_traces import PodIds, PodTraces

SERVICE_NAME = "berth-scheduler"
EXPORT_TIMEOUT_S = 5.0
"""How long one request to the collector may take, and so how long it can hold up the end of the process."""
DEFAULT_ENDPOINT = "http://localhost:4318"


class Tracing:
    """Traces of pods on their way to a collector."""

    __slots__ = ("_provider", "instrument")

    def __init__(self, provider: TracerProvider, instrument: PodTraces) -> None:
        self._provider = provider
        self.instrument = instrument

    def stop(self) -> None:
        """End what is open and send what is left; blocks for as long as the last requests take."""
        self.instrument.end_all()
        self._provider.shutdown()


def start_tracing(
    config: TracingConfiguration,
    *,
    identity: str,
    processor: SpanProcessor | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Tracing:
    """Return tracing at work; `identity` tells the replicas apart. Raises `ConfigError`.

    `processor` receives the spans in place of the exporter.
    """
    if problem := unsafe_endpoint(config, environ):
        raise ConfigError([problem])
    ids = PodIds()
    # The sampler has nothing to decide: no span is begun for a pod that is not sampled.
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=resource_of(identity, environ), id_generator=ids, shutdown_on_exit=False
    )
    if processor is None:
        processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=config.url, timeout=EXPORT_TIMEOUT_S))
    provider.add_span_processor(processor)
    return Tracing(provider, PodTraces(provider, ids, sampling_rate_per_million=config.sampling_rate_per_million or 0))


def resource_of(identity: str, environ: Mapping[str, str]) -> Resource:
    """Return the resource of all spans: this program, its version, and the replica."""
    attributes = {"service.version": __version__, "service.instance.id": identity}
    if "OTEL_SERVICE_NAME" not in environ:
        attributes["service.name"] = SERVICE_NAME
    return Resource.create(attributes)


def unsafe_endpoint(config: TracingConfiguration, environ: Mapping[str, str]) -> str:
    """Say why headers, which hold tokens, would leave this machine unencrypted; empty if they would not."""
    if not any(environ.get(f"OTEL_EXPORTER_OTLP_{part}HEADERS") for part in ("", "TRACES_")):
        return ""
    listed = (environ.get(f"OTEL_EXPORTER_OTLP_{part}ENDPOINT", "") for part in ("TRACES_", ""))
    url = config.url or next((each for each in listed if each), DEFAULT_ENDPOINT)
    parts = urlsplit(url)
    if parts.scheme == "https" or _is_loopback(parts.hostname or ""):
        return ""
    return (
        f"OTEL_EXPORTER_OTLP_HEADERS would be sent to {parts.hostname} in the clear: give an https:// endpoint, "
        "or leave the headers out"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
