"""What podFailurePolicy and successPolicy say: documentation of v1.36, Jobs; messages as upstream words them."""

import pytest

from berth_workloads.job_policies import FailedPod, failure_verdict, success_met

POD = FailedPod("ns/p", [("setup", 0), ("main", 42)], {("DisruptionTarget", "True"), ("Ready", "False")})


def on_exit(operator, values, container=None, action="FailJob"):
    requirement = {"operator": operator, "values": values} | ({"containerName": container} if container else {})
    return {"action": action, "onExitCodes": requirement}


def on_condition(name, action="Ignore", **status):
    return {"action": action, "onPodConditions": [{"type": name, **status}]}


EXIT_WORDS = "Container main for pod ns/p failed with exit code 42 matching {} rule at index {}"


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ([], ("Count", "")),
        ([on_exit("In", [42])], ("FailJob", EXIT_WORDS.format("FailJob", 0))),
        ([on_exit("In", [42], "setup")], ("Count", "")),
        (
            [on_exit("In", [1]), on_exit("In", [42], "main", "FailIndex")],
            ("FailIndex", EXIT_WORDS.format("FailIndex", 1)),
        ),
        ([on_exit("NotIn", [1, 2])], ("FailJob", EXIT_WORDS.format("FailJob", 0))),
        ([on_exit("NotIn", [42])], ("Count", "")),
        (
            [on_condition("DisruptionTarget"), on_exit("In", [42])],
            ("Ignore", "Pod ns/p has condition DisruptionTarget matching Ignore rule at index 0"),
        ),
        ([on_condition("Ready")], ("Count", "")),
        (
            [on_condition("Ready", "Count", status="False"), on_exit("In", [42])],
            ("Count", "Pod ns/p has condition Ready matching Count rule at index 0"),
        ),
    ],
)  # fmt: skip
def test_the_first_rule_that_matches_decides(rules, verdict):
    assert failure_verdict(rules, POD) == verdict


def test_an_exit_code_of_0_matches_nothing():
    assert failure_verdict([on_exit("NotIn", [1])], POD._replace(exits=[("main", 0)])) == ("Count", "")


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([], {0, 1}, ""),
        ([{"succeededIndexes": "0,2-3"}], {0, 2, 3}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3"}], {0, 1, 3}, ""),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], {0, 1, 3}, "Matched rules at index 0"),
        ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], {0, 1}, ""),
        ([{"succeededCount": 2}], {5}, ""),
        ([{"succeededIndexes": "9"}, {"succeededCount": 2}], {5, 6}, "Matched rules at index 1"),
    ],
)
def test_when_enough_has_succeeded(rules, succeeded, met):
    assert success_met(rules, succeeded) == met
