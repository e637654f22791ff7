"""What is typed into the sentence of a question: read as the command reads it, and said as the command says it."""

import json
import shlex

import pytest

from berth_workbench.cli import COMMANDS
from berth_workbench.comparison.configurations import DEFAULT, ConfigurationSource
from berth_workbench.page.views.forms import CONFIGURATION, Form
from berth_workbench.questions.sentence import asked_in_words, pieces
from berth_workbench.questions.table import asked_on_page
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.planning.test_survival import node, pod, snapshot_of

OWN = ConfigurationSource(DEFAULT)


def form_of(name):
    return Form(next(each for each in asked_on_page() if each.name == name))


def said(form, values):
    texts = {name: form.words(name, values) for name in form.names()}
    return "".join(piece.text for piece in pieces(form.question, texts))


@pytest.mark.parametrize("name", ["whatif", "survive", "wait", "rebalance", "upgrade-plan"])
def test_the_page_says_what_the_command_says(name):
    form = form_of(name)
    values = form.usual() | ({"changes": "drain n1\nlose-zone a"} if form.question.takes_changes else {})
    request = form.request(values, Snapshot(()), OWN)
    assert said(form, values) == asked_in_words(form.question, request, form.steps(values))


@pytest.mark.parametrize(
    ("name", "typed", "command"),
    [
        ("survive", {}, "berth survive"),
        ("survive", {"kinds": "zone, node", "pairs": "true", "changes": "drain n1\nadd-nodes 2=n1"},
         "berth survive --of zone --of node --pairs --drain n1 --add-nodes 2=n1"),
        ("upgrade-plan", {"nodes": "gpu-*", "at_once": "3"}, "berth upgrade-plan --nodes 'gpu-*' --at-once 3"),
        ("wait", {"pods": "shop/web-1, shop/web-2"}, "berth wait shop/web-1 shop/web-2"),
        ("whatif", {"manifests": "kind: Pod", "changes": "scale deployment/web=3"},
         "berth whatif -f manifests.yaml --scale deployment/web=3"),
        ("rebalance", {}, "berth rebalance --goal empty-nodes"),
        ("autoscale", {"prices": "a: 1"}, "berth autoscale --groups groups.yaml --prices prices.yaml"),
        ("compare", {}, "berth compare default b.yaml"),
        ("whatif", {"changes": "drain $(reboot)"}, "berth whatif --drain '$(reboot)'"),
    ],
)  # fmt: skip
def test_the_command_that_asks_the_same(name, typed, command):
    form = form_of(name)
    told = form.command(form.usual() | typed)
    assert told == command and shlex.split(told)[1] in COMMANDS.commands


def test_what_the_cluster_is_asked_for_is_asked_of_the_cluster():
    form = form_of("autoscale")
    request = form.request(form.usual(), snapshot_of([node("a"), node("b")]), OWN)
    assert [group.name for group in request.groups] == ["std"]
    with pytest.raises(ValueError, match="type the node groups"):
        form.request(form.usual(), Snapshot(()), OWN)


def test_a_shape_is_a_pod_and_extended_resources_are_limited_as_they_are_requested():
    form = form_of("capacity")
    values = form.usual() | {"cpu": "2", "others": "nvidia.com/gpu=1"}
    (document,) = form.request(values, Snapshot(()), OWN).documents
    (container,) = document.manifest["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert said(form, values).startswith("How many more pods of 2 CPU, 2Gi memory and 1 nvidia.com/gpu fit")
    with pytest.raises(ValueError, match="what is to fit"):
        form.request(values | {"cpu": "", "memory": "", "others": ""}, Snapshot(()), OWN)


def test_two_configurations_place_what_is_pending_or_everything_anew():
    form = form_of("compare")
    there = snapshot_of([node("a"), pod("w", "a", "1")])
    assert form.usual()["b"] == CONFIGURATION and json.dumps(form.inputs("b"))
    with pytest.raises(ValueError, match="no pod is pending here"):
        form.request(form.usual(), there, OWN)
    request = form.request(form.usual() | {"all": "true"}, there, OWN)
    assert len(request.load.pods) == 1 and request.a is OWN and request.b.name == "B"
    assert said(form, form.usual()).startswith("Place what is pending by the configuration in use and by an example")
