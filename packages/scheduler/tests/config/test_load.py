"""Loading: dispatch on the document's type, files, and what extenders pass on to plugins."""

import pytest

from berth.config.errors import ConfigError
from berth.config.load import DEFAULT_SOURCE, default_config, load_config, load_config_file
from packages.scheduler.tests.config.documents import v1_document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "expected a mapping with apiVersion kubescheduler.config.k8s.io/v1"),
        ([], "expected a mapping"),
        ({}, "apiVersion: Required value: write kubescheduler.config.k8s.io/v1"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1"}, "kind: Required value: write KubeSchedulerConfiguration"),
        ({"apiVersion": 1, "kind": "Policy"}, "apiVersion and kind must be strings"),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfiguration"},
            "kubescheduler.config.k8s.io/v1beta3 is no longer served since v1.29",
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "Pod"},
            'kind: Unsupported value: "Pod": supported values: "KubeSchedulerConfiguration"',
        ),
        (
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "Pod"},
            'kind: Unsupported value: "Pod": supported values: "KubeSchedulerConfiguration"',
        ),
        ({"apiVersion": "v1", "kind": "Polcy"}, 'kind: Unsupported value: "Polcy": supported values: "Policy"'),
        (
            {"apiVersion": "apps/v1", "kind": "KubeSchedulerConfiguration"},
            'apiVersion: Unsupported value: "apps/v1": supported values: "kubescheduler.config.k8s.io/v1"',
        ),
    ],
)
def test_dispatch_refuses(document, message):
    with pytest.raises(ConfigError) as caught:
        load_config(document, source="here")
    assert str(caught.value).startswith("here: ")
    assert message in str(caught.value)


def test_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 3\n")
    assert load_config_file(file).parallelism == 3


def test_json_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 4}'
    )
    assert load_config_file(str(file)).parallelism == 4


def test_file_errors_name_the_file(tmp_path):
    missing = tmp_path / "none.yaml"
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot read the configuration file: No such file"):
        load_config_file(missing)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofils: []\n")
    with pytest.raises(ConfigError, match=r'wrong\.yaml: profils: unknown field "profils"; did you mean profiles\?'):
        load_config_file(wrong)


def test_resources_that_extenders_take_over_are_ignored_by_fit_in_every_profile():
    resources = [
        {"name": "example.com/gpu", "ignoredByScheduler": True},
        {"name": "example.com/fpga"},
    ]
    args = {"ignoredResources": ["other.io/x"], "scoringStrategy": {"type": "MostAllocated"}}
    config = load_config(
        v1_document(
            profiles=[
                {"schedulerName": "a", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]},
                {"schedulerName": "b"},
            ],
            extenders=[{"urlPrefix": "http://h/", "filterVerb": "f", "managedResources": resources}],
        )
    )
    first, second = (profile.plugin_config["NodeResourcesFit"] for profile in config.profiles)
    assert first == {"ignoredResources": ["example.com/gpu"], "scoringStrategy": {"type": "MostAllocated"}}
    assert second == {"ignoredResources": ["example.com/gpu"]}


def test_default_config_is_an_empty_document():
    assert default_config() == load_config(v1_document(), DEFAULT_SOURCE)
