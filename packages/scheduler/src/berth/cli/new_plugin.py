"""`berth new-plugin NAME`: a package with a working plugin, to be changed into the one that is wanted.

A name in; a directory out, with a pyproject.toml that offers the plugin, its module, a test, a sample configuration and
a README. Nothing that exists is overwritten. With `--like` the plugin begins as another one: its module is copied, with
the new name in place of the old one.
"""

import importlib
import inspect
import keyword
import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import click

from berth.cli.setup import EXIT_BAD_CONFIGURATION
from berth.framework.loader import ENTRY_POINT_GROUP

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]")


class UnfitNameError(click.ClickException):
    """A name that a plugin cannot have."""

    exit_code = EXIT_BAD_CONFIGURATION


class Names(NamedTuple):
    """A plugin's names as a distribution, as a module and as a class."""

    distribution: str
    module: str
    plugin: str


@click.command("new-plugin", short_help="Write a package with a plugin, ready to install.")
@click.argument("name")
@click.option(
    "--like",
    default="",
    metavar="PLUGIN|MODULE:CLASS",
    help="Begin as this plugin: one that is installed, or the class of a module.",
)
def command(name: str, like: str) -> None:
    """Write a package with a plugin into ./NAME: module, test, README, and a configuration that enables it.

    NAME is the distribution's, like quiet-rack; the module is then quiet_rack and the plugin QuietRack.
    """
    names = names_of(name)
    directory = Path(names.distribution)
    files = written_like(model_named(like), names) if like else written(names)
    try:
        write_package(files, directory)
    except FileExistsError:
        raise click.ClickException(f"{directory} is there already; nothing was written") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {directory}: {error.strerror or error}") from None
    click.echo(
        f"{names.plugin} is written into {directory}/. What to do next:\n"
        f"  pip install -e ./{directory}               (once)\n"
        f"  pytest {directory}\n"
        f"  berth up --config {directory}/config.yaml"
    )


def names_of(name: str) -> Names:
    """Return what a plugin's names are made from; raises a click exception where the name cannot be used."""
    if not _NAME.fullmatch(name):
        raise UnfitNameError(
            f"{name!r} is no name for a package: letters and digits, with - between words, like quiet-rack"
        )
    words = [word.lower() for part in re.split(r"[-_]", name) for word in _WORDS.findall(part)]
    names = Names("-".join(words), "_".join(words), "".join(word.capitalize() for word in words))
    if keyword.iskeyword(names.module):
        raise UnfitNameError(f"{name!r} is a word of Python's own; take a name of two words")
    if names.module in sys.stdlib_module_names | _TAKEN:
        raise UnfitNameError(f"{name!r}: there is a module {names.module} already; take a name of two words")
    from berth.plugins.registry import in_tree_registry

    if names.plugin in in_tree_registry():
        raise UnfitNameError(f"{name!r}: {names.plugin} is a plugin of Berth itself; take another name")
    return names


_TAKEN = frozenset({"berth", "berth_cluster", "tests", "numpy", "msgspec"})


def write_package(files: Mapping[str, str], directory: Path) -> None:
    """Write the package; raises `FileExistsError` where the directory is there."""
    directory.mkdir()
    (directory / "tests").mkdir()
    for file, text in files.items():
        (directory / file).write_text(text, encoding="utf-8")


def written(names: Names) -> dict[str, str]:
    """Return the files of a package with the example's plugin."""
    templates = {
        "pyproject.toml": _PYPROJECT,
        f"{names.module}.py": _MODULE,
        f"tests/test_{names.module}.py": _TEST,
        "config.yaml": _CONFIG,
        "README.md": _README,
    }
    more = {**names._asdict(), "more": ""}
    return {file: Template(template).substitute(more) for file, template in templates.items()}


# -- like another one --------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """The plugin that a package begins as."""

    plugin: type
    source: str
    """Of its module."""
    distribution: str
    """What the copy imports from besides; empty where it is not known."""


def model_named(like: str) -> Model:
    """Return the plugin of that name, or the class of a module. Raises a click exception."""
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
    value = like if ":" in like else found[like].value if like in found else ""
    if not value:
        there = f"installed are {', '.join(sorted(found))}" if found else "none is installed"
        raise UnfitNameError(f"--like {like}: there is no such plugin; {there}, and MODULE:CLASS names any other")
    module, _, attribute = value.partition(":")
    try:
        plugin = getattr(importlib.import_module(module), attribute)
        source = inspect.getsource(sys.modules[plugin.__module__])
    except Exception as error:  # a stranger's module may raise anything
        raise UnfitNameError(f"--like {like}: {error}") from None
    dist = found[like].dist if like in found else None
    return Model(plugin, source, "" if dist is None else dist.name)


def written_like(model: Model, names: Names) -> dict[str, str]:
    """Return the files of a package whose plugin begins as another one, under the new name."""
    import yaml

    old = model.plugin.__name__
    renamed = re.sub(rf"\b{old}(Args)?\b", rf"{names.plugin}\1", model.source)
    points: dict[str, Any] = {"multiPoint": {"enabled": [{"name": names.plugin}]}}
    if hasattr(model.plugin, "less"):
        points["queueSort"] = {"disabled": [{"name": "PrioritySort"}]}
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": points}
    given, lacking = _required_args(model.plugin)
    if given:
        profile["pluginConfig"] = [{"name": names.plugin, "args": given}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = yaml.safe_dump({**head, "profiles": [profile]}, sort_keys=False)
    beside = f', "{model.distribution}"' if model.distribution else ""
    more = {**names._asdict(), "more": beside, "old": old, "lacking": ", ".join(lacking)}
    return {
        "pyproject.toml": Template(_PYPROJECT).substitute(more),
        f"{names.module}.py": renamed,
        f"tests/test_{names.module}.py": Template(_TEST_LIKE).substitute(more),
        "config.yaml": config,
        "README.md": Template(_README_LIKE).substitute(more),
    }


def _required_args(plugin: type) -> tuple[dict[str, Any], list[str]]:
    """Return something for each field of the args that has to be there, and the fields for which nothing is known."""
    import msgspec

    args_type = getattr(plugin, "args_type", None)
    validate = getattr(args_type, "validate", None)
    if args_type is None or validate is None:
        return {}, []
    args = args_type()
    args = args.defaulted() if hasattr(args, "defaulted") else args
    said = " ".join(args.validate("args"))
    kinds = {each.encode_name: msgspec.inspect.type_info(each.type) for each in msgspec.structs.fields(args_type)}
    missing = {name: kind for name, kind in kinds.items() if re.search(rf"args\.{name}: Required value", said)}
    given: dict[str, Any] = {}
    for name, kind in missing.items():
        if isinstance(kind, msgspec.inspect.DictType):
            given[name] = {"example": {}}
        elif name.lower().endswith("address"):
            given[name] = "http://127.0.0.1:1"
    return given, [name for name in missing if name not in given]


_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
description = "A plugin for the Berth scheduler."
requires-python = ">=3.11"
dependencies = ["berth-scheduler"$more]

[project.entry-points."berth.plugins"]
$plugin = "$module:$plugin"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]
"""

_MODULE = '''\
"""$plugin: keeps pods off nodes that a label closes to them, and prefers those that hold fewer pods."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Dependency,
    Handle,
    NodeView,
    PodInfo,
    Promises,
    Status,
    unschedulable,
)


class ${plugin}Args(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say; in JSON the fields are in camelCase."""

    label: str = "example.com/closed"


class $plugin:
    """Filter, Score."""

    name = "$plugin"
    args_type = ${plugin}Args
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
    )

    def __init__(self, args: ${plugin}Args, handle: Handle) -> None:
        self._label = args.label

    def signature(self, pod: PodInfo) -> tuple[()]:
        """Say what of the pod the answers depend on: here nothing. They are kept until the node changes."""
        return ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say why the pod cannot run on the node; None where it can."""
        if node.labels.get(self._label) == "true":
            return unschedulable("node(s) were closed")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return 0 to 100, more for a better node."""
        return max(0, 100 - node.pod_count)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Name what may cure a rejection: a new node, or a change of labels."""
        return [ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL))]
'''

_TEST = '''\
"""$plugin in a cluster in memory and in virtual time."""

from berth.testing import VirtualCluster, check_plugin, make_node, make_pod
from $module import $plugin


def some_node(rng, name):
    return make_node(name).capacity(cpu="4", memory="8Gi").label("example.com/closed", rng.choice(["true", "false"]))


def test_it_keeps_its_contract():
    check_plugin($plugin, nodes=some_node)


def test_a_closed_node_gets_no_pod_until_it_is_opened():
    closed = make_node("n1").capacity(cpu="4", memory="8Gi").label("example.com/closed", "true")
    cluster = VirtualCluster(closed, make_pod("web").request(cpu="1"), plugins=[$plugin]).run()
    assert cluster.nodes_of() == {"web": ""}
    (told,) = cluster.events("FailedScheduling")
    assert told.startswith("0/1 nodes are available: 1 node(s) were closed.")

    cluster.put(closed.copy().label("example.com/closed", "false"))
    cluster.advance(60.0)
    assert cluster.nodes_of() == {"web": "n1"}


def test_the_emptier_node_is_preferred():
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi") for name in ("n1", "n2")]
    there = make_pod("there").node("n1")
    cluster = VirtualCluster(*nodes, there, make_pod("web"), plugins=[$plugin]).run()
    assert cluster.nodes_of()["web"] == "n2"
'''

_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: $plugin
        weight: 2
  pluginConfig:
  - name: $plugin
    args:
      label: example.com/closed
"""

_README = """\
# $plugin

A plugin for the [Berth](https://github.com/berth-scheduler/berth) scheduler: it keeps pods off nodes that a label
closes to them, and prefers those that hold fewer pods.

    pip install -e .                  # where Berth is installed
    pytest
    berth plugins --config config.yaml
    berth up --config config.yaml

Its args, under `pluginConfig`:

| field | means |
| --- | --- |
| `label` | the node label that closes a node where it is `true`; `example.com/closed` unless given |
"""

_TEST_LIKE = '''\
"""$plugin in a cluster in memory and in virtual time: the configuration enables it, and pods are scheduled."""

from pathlib import Path

import pytest
import yaml
from berth.testing import VirtualCluster, make_node, make_pod
from $module import $plugin

CONFIG = Path(__file__).parents[1] / "config.yaml"
LACKING = "$lacking"
"""The args that the configuration needs before the plugin can be made."""


@pytest.mark.skipif(bool(LACKING), reason=f"fill in the args in config.yaml: {LACKING}")
def test_pods_are_scheduled():
    node = make_node("n1").capacity(cpu="4", memory="8Gi")
    config = yaml.safe_load(CONFIG.read_text())
    cluster = VirtualCluster(node, make_pod("web"), plugins={"$plugin": $plugin}, config=config).run()
    assert cluster.nodes_of() == {"web": "n1"}
'''

_README_LIKE = """\
# $plugin

A plugin for the [Berth](https://github.com/berth-scheduler/berth) scheduler. It begins as a copy of $old, whose licence
applies to what is left of that.

    pip install -e .                  # where Berth is installed
    pytest
    berth plugins --config config.yaml
    berth up --config config.yaml
"""
