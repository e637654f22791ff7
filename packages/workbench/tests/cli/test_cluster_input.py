"""Clusters and manifests from the command line, and one line for what cannot be read."""

import click
import pytest

from berth.api.user_error import UserError
from berth_workbench.cli.cluster_input import read_cluster_given, read_manifests

NODE = "kind: Node\napiVersion: v1\nmetadata: {name: n1}\n"


def test_files_and_directories_are_one_cluster(tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "a.yaml").write_text(NODE)
    (tmp_path / "b.json").write_text('{"kind": "PodList", "items": [{"metadata": {"name": "p", "namespace": "x"}}]}')
    snapshot = read_cluster_given([str(tmp_path / "dir"), str(tmp_path / "b.json")])
    assert sorted(document.kind for document in snapshot.documents) == ["Node", "Pod"]
    assert [each.kind for each in read_manifests([str(tmp_path / "dir" / "a.yaml")])] == ["Node"]


def test_what_cannot_be_read_is_one_line(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: Node\n  metadata: {")
    for read in (lambda: read_cluster_given([str(bad)]), lambda: read_manifests([str(bad)])):
        with pytest.raises(UserError) as told:
            read()
        assert str(bad) in str(told.value)
        assert "\n" not in str(told.value)
    with pytest.raises(click.ClickException, match="no such file"):
        read_manifests([str(tmp_path / "none.yaml")])
    with pytest.raises(click.UsageError, match="two different clusters"):
        read_cluster_given([str(bad)], kubeconfig="k")
