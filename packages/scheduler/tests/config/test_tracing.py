"""The tracing configuration: what is taken, and what is wrong with the rest.

Fields and limits: k8s.io/component-base/tracing/api/v1 of v1.36; the endpoint is our own, since we speak HTTP.
"""

import pytest

from berth.config.errors import ConfigError
from berth.config.tracing import TracingConfiguration, load_tracing_file


def written(tmp_path, text):
    path = tmp_path / "tracing.yaml"
    path.write_text(text)
    return path


def document(**fields):
    lines = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration", **fields}
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


@pytest.mark.parametrize(
    "version", ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.k8s.io/v1alpha1"]
)
def test_a_document(tmp_path, version):
    text = document(apiVersion=version, endpoint="collector:4318", samplingRatePerMillion=100)
    found = load_tracing_file(written(tmp_path, text))
    assert found == TracingConfiguration("collector:4318", 100)


def test_nothing_said_is_nothing_traced(tmp_path):
    assert load_tracing_file(written(tmp_path, document())) == TracingConfiguration(None, None)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (None, None),
        ("localhost:4318", "http://localhost:4318/v1/traces"),
        ("[::1]:4318", "http://[::1]:4318/v1/traces"),
        ("https://collector.example.com", "https://collector.example.com/v1/traces"),
        ("https://collector.example.com/", "https://collector.example.com/v1/traces"),
        ("https://collector.example.com/otlp/v1/traces", "https://collector.example.com/otlp/v1/traces"),
    ],
)
def test_where_traces_are_posted(endpoint, url):
    assert TracingConfiguration(endpoint=endpoint).url == url


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "apiVersion: Required value"),
        (document(kind="Tracing"), 'kind: Unsupported value: "Tracing"'),
        (document(apiVersion="v1"), 'apiVersion: Unsupported value: "v1"'),
        (
            document(samplingRatePerMillion=-1),
            "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        ),
        (document(samplingRatePerMillion=1_000_001), "must be less than or equal to one million"),
        (document(samplingRatePerMillion="much"), "samplingRatePerMillion"),
        (document(samplingrate=1), "samplingrate"),
        (document(endpoint="dns:///collector"), "unsupported scheme: dns"),
        (document(endpoint='"http://"'), "write host:port, or a URL"),
        (document(endpoint='"http://user:secret@collector:4318"'), "credentials do not belong here"),
        (document(endpoint='"collector:http"'), "endpoint: Invalid value"),
        ("- a", "mapping"),
        ("{", "tracing.yaml"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, says):
    with pytest.raises(ConfigError) as caught:
        load_tracing_file(written(tmp_path, text))
    assert says in str(caught.value) and "tracing.yaml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the tracing configuration"):
        load_tracing_file(tmp_path / "none.yaml")
