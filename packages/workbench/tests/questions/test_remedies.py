"""The questions that try what would help: what they try is carried out here, and the pending pod has a node by it."""

import pytest

from berth.core.builders import make_node, make_pod
from berth_workbench.planning.scenario import typed_steps
from berth_workbench.planning.whatif import WhatIfRun
from berth_workbench.questions.remedies import OF_PENDING, trial_of
from berth_workbench.questions.table import asked_on_page
from berth_workbench.showing.sections import Try
from berth_workbench.simulation.site import Site
from packages.workbench.tests.planning.help.test_workloads import help_for, snapshot_of


def node(name):
    return make_node(name).capacity(cpu="8", memory="32Gi", pods="110")


FULL = [node("a"), make_pod("old").request(cpu="6").node("a").phase("Running")]
CORDONED = [*FULL, make_node("b").capacity(cpu="8", memory="32Gi", pods="110").unschedulable()]
NEW = make_pod("new").request(cpu="6")


@pytest.mark.parametrize(
    ("objects", "pod", "kind", "expected"),
    [
        (FULL, NEW, "node", Try("What if 1 node like a were added?", "whatif", {"changes": "add-nodes 1=a"})),
        (CORDONED, NEW, "uncordon", Try("What if b were uncordoned?", "whatif", {"changes": "uncordon b"})),
        (FULL, NEW, "podsGone", Try("What if default/old were evicted?", "whatif", {"changes": "evict default/old"})),
    ],
)  # fmt: skip
def test_a_change_of_the_cluster_is_tried_as_it_stands(objects, pod, kind, expected):
    change = next(each for each in help_for("default/new", *objects, pod).changes if each.kind == kind)
    trial = trial_of(change)
    assert trial == expected
    site = Site.of(snapshot_of(*objects, pod))
    result = WhatIfRun(site).run(typed_steps(trial.typed["changes"]))
    assert result.is_complete and site.cluster.pods["default/new"].spec.node_name


def test_nodes_made_to_measure_and_changes_of_the_pod_are_no_question_about_the_cluster():
    changes = help_for("default/new", *FULL, make_pod("new").request(cpu="10")).changes
    assert {"node", "requests"} <= {each.kind for each in changes}
    assert [trial_of(each) for each in changes] == [None] * len(changes)


def test_what_can_be_asked_of_all_that_is_pending_is_asked_on_the_page():
    assert {each.question for each in OF_PENDING} <= {each.name for each in asked_on_page()}
