"""JSONPath of columns and scales; the dialect is that of kubernetes.io "JSONPath Support"."""

import pytest

from berth_cluster.custom.paths import PathError, find, parse, simple_keys

OBJ = {
    "metadata": {"labels": {"example.com/role": "db"}},
    "spec": {"parts": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "on": True},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Stuck", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.on", [True]),
        (".spec.parts[*].name", ["a", "b"]),
        (".spec.parts[-1].name", ["b"]),
        (".spec.parts[1].n", [2]),
        (".spec.missing.deep", []),
        (".spec.parts[7].name", []),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Gone')].status", []),
        (".spec.parts[?(@.n!=1)].name", ["b"]),
        (r".metadata.labels.example\.com/role", ["db"]),
        (".metadata.labels['example.com/role']", ["db"]),
    ],
)
def test_values_at_a_path(path, values):
    assert find(OBJ, path) == values


@pytest.mark.parametrize("path", ["spec", ".spec[", ".spec[?(@.n)]", "..name"])
def test_paths_that_cannot_be_read(path):
    with pytest.raises(PathError):
        parse(path)


def test_paths_of_names_only():
    assert simple_keys(".spec.replicas") == ["spec", "replicas"]
    assert [simple_keys(path) for path in (".spec.a[0]", "spec", ".spec.*", "")] == [None] * 4
