"""TracingConfiguration, the document with which Kubernetes' components are told where to send traces.

kube-apiserver reads it with `--tracing-config-file`, and so does `berth run`; kube-scheduler v1.36 has no traces.
Deviation: traces are sent as OTLP over HTTP and not over gRPC, so `endpoint` may be a URL, and the default port is
4318.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from berth.config.decode import Decoder
from berth.config.document import parse_document
from berth.config.errors import ConfigError, invalid, required, unsupported

KIND: Final = "TracingConfiguration"
API_VERSIONS: Final = tuple(
    f"{group}/{version}"
    for group in ("apiserver.config.k8s.io", "apiserver.k8s.io")
    for version in ("v1", "v1beta1", "v1alpha1")
)
MILLION: Final = 1_000_000
PATH: Final = "/v1/traces"


class TracingConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Where to send traces, and how many."""

    endpoint: str | None = None
    """`host:port`, or a URL; None means as the environment says (OTEL_EXPORTER_OTLP_ENDPOINT), else localhost:4318."""
    sampling_rate_per_million: int | None = None
    """How many pods of a million are traced; None means none, since no caller's decision could be followed."""

    @property
    def url(self) -> str | None:
        """The address to post traces to, or None where the environment says it."""
        if self.endpoint is None:
            return None
        parts = urlsplit(self.endpoint if "://" in self.endpoint else f"http://{self.endpoint}")
        return parts.geturl() if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{PATH}"


class _Document(TracingConfiguration, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""


def load_tracing_file(path: str | Path) -> TracingConfiguration:
    """Read the document; raises ConfigError that names the file and every fault."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([f"cannot read the tracing configuration: {error.strerror or error}"], str(path)) from None
    value = parse_document(text, str(path))
    decoder = Decoder()
    document = decoder.decode({} if value is None else value, _Document)
    if document is None:
        raise ConfigError(decoder.errors, str(path))
    if errors := list(_faults(document)):
        raise ConfigError(errors, str(path))
    return TracingConfiguration(document.endpoint, document.sampling_rate_per_million)


def _faults(document: _Document) -> "list[str]":
    """What is wrong with it (k8s.io/component-base/tracing/api/v1, ValidateTracingConfiguration)."""
    found = []
    if not document.api_version:
        found.append(required("apiVersion", f"write {API_VERSIONS[0]}"))
    elif document.api_version not in API_VERSIONS:
        found.append(unsupported("apiVersion", document.api_version, API_VERSIONS))
    if document.kind != KIND:
        found.append(unsupported("kind", document.kind, [KIND]) if document.kind else required("kind", f"write {KIND}"))
    rate = document.sampling_rate_per_million or 0
    if rate < 0:
        found.append(invalid("samplingRatePerMillion", rate, "sampling rate must be positive"))
    if rate > MILLION:
        detail = "sampling rate per million must be less than or equal to one million"
        found.append(invalid("samplingRatePerMillion", rate, detail))
    if problem := _endpoint_problem(document.url):
        found.append(invalid("endpoint", document.endpoint, problem))
    return found


def _endpoint_problem(url: str | None) -> str:
    if url is None:
        return ""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return f"unsupported scheme: {parts.scheme}. Options are none, http, or https: traces are sent over HTTP"
    if parts.username or parts.password:
        return "credentials do not belong here: put a header into OTEL_EXPORTER_OTLP_HEADERS"
    return "" if has_host else "write host:port, or a URL"
