"""Kubeconfig files: merged as kubectl merges them, and wrong ones refused with words."""

import pytest
import yaml

from berth.kube.credentials.kubeconfig import KubeconfigError, load, select

FULL = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "dev",
    "preferences": {},
    "clusters": [{"name": "c1", "cluster": {"server": "https://one:6443", "extensions": []}}],
    "users": [{"name": "u1", "user": {"token": "t", "as-groups": ["a"]}}],
    "contexts": [
        {"name": "dev", "context": {"cluster": "c1", "user": "u1", "namespace": "shop"}},
        {"name": "anonymous", "context": {"cluster": "c1"}},
    ],
}


def write(path, document):
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def selected(tmp_path, document, context=""):
    return select(load([write(tmp_path / "config", document)]), context)


def test_the_current_context(tmp_path):
    found = selected(tmp_path, FULL)
    assert (found.context_name, found.cluster_name, found.user_name, found.namespace) == ("dev", "c1", "u1", "shop")
    assert found.cluster.value.server == "https://one:6443"
    assert found.user.value.token == "t" and found.user.value.impersonate_groups == ("a",)


def test_another_context_and_no_user(tmp_path):
    found = selected(tmp_path, FULL, "anonymous")
    assert found.user_name == "" and found.user.value.token == ""


def test_nulls_are_absent(tmp_path):
    document = {**FULL, "users": [{"name": "u1", "user": None}], "preferences": None}
    assert selected(tmp_path, document).user.value.token == ""


class TestMerging:
    def test_the_first_file_to_name_something_wins(self, tmp_path):
        second = {
            "current-context": "prod",
            "clusters": [
                {"name": "c1", "cluster": {"server": "https://other:6443", "tls-server-name": "x"}},
                {"name": "c2", "cluster": {"server": "https://two:6443"}},
            ],
            "contexts": [{"name": "prod", "context": {"cluster": "c2", "user": "u1"}}],
        }
        config = load([write(tmp_path / "a", {**FULL, "current-context": ""}), write(tmp_path / "b", second)])
        assert config.current_context == "prod"
        assert select(config, "dev").cluster.value.server == "https://one:6443"
        assert select(config, "dev").cluster.value.tls_server_name == ""
        assert select(config).cluster.value.server == "https://two:6443"
        assert select(config).user.value.token == "t"

    def test_entries_remember_their_file(self, tmp_path):
        (tmp_path / "sub").mkdir()
        users = write(tmp_path / "sub" / "users", {"users": FULL["users"]})
        rest = write(tmp_path / "rest", {**FULL, "users": []})
        found = select(load([rest, users]))
        assert (found.cluster.path, found.user.path) == (rest, users)

    def test_missing_files_of_a_list_are_passed_over(self, tmp_path):
        path = write(tmp_path / "config", FULL)
        assert load([tmp_path / "absent", path], ignore_missing=True).paths == (path,)


def without(field, **more):
    return {**{key: value for key, value in FULL.items() if key != field}, **more}


@pytest.mark.parametrize(
    ("document", "context", "words"),
    [
        ("a: [1", "", "not valid YAML in line"),
        ("just a word", "", "expected a mapping"),
        ("", "", "current-context is not set"),
        ({"kind": "Pod", "apiVersion": "v1"}, "", "'v1' and 'Pod', not 'v1' and 'Config'"),
        (without("current-context"), "", "current-context is not set.*known contexts: anonymous, dev"),
        (FULL, "prod", "the context asked for is 'prod', but no such context exists.*anonymous, dev"),
        (without("contexts"), "", "current-context is 'dev', but no such context.*there are no contexts"),
        (without("clusters"), "", "context 'dev': cluster is 'c1', but clusters has no entry.*there are no clusters"),
        (without("users"), "", "context 'dev': user is 'u1', but users has no entry"),
        (without("contexts", contexts=[{"name": "dev"}]), "", "context 'dev': cluster is not set"),
        (
            without("users", users=[{"name": "u1", "user": {"token": 12}}]),
            "",
            r"users\[0\] \(u1\)\.user\.token: expected `str`, got `int`",
        ),
        (without("clusters", clusters="c1"), "", "clusters: expected `array`"),
        (without("users", users=[{"user": {}}]), "", r"users\[0\]: object missing required field `name`"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, document, context, words):
    with pytest.raises(KubeconfigError, match=words) as caught:
        selected(tmp_path, document, context)
    assert str(tmp_path / "config") in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file or directory; check the path"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), "not a text file in UTF-8"),
        (lambda path: path.write_text("a: !!int b"), "not valid YAML: invalid literal"),
        (lambda path: path.write_text("[" * 100_000), "levels deep"),
    ],
    ids=["missing", "directory", "binary", "value", "depth"],
)
def test_files_that_cannot_be_read(tmp_path, make, words):
    make(tmp_path / "config")
    with pytest.raises(KubeconfigError, match=words):
        load([tmp_path / "config"])
