"""Scenario files are read strictly, and what is wrong with one is told with its place."""

import pytest

from berth_workbench.planning.scenario import Manifests, read_scenario
from berth_workbench.simulation.changes import AddNodes, ChangeError, Drain

HEAD = "apiVersion: berth.dev/v1\nkind: Scenario\n"


def written(tmp_path, text):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    return file


def test_steps_come_in_order_and_files_are_looked_for_beside_the_scenario(tmp_path):
    (tmp_path / "web.yaml").write_text("kind: Service\nmetadata: {name: web}\n")
    steps = "steps:\n- addNodes: {like: n1, count: 2}\n- apply: web.yaml\n- drain: n1\n"
    found = read_scenario(written(tmp_path, HEAD + steps))
    assert found[0] == AddNodes("n1", 2)
    assert isinstance(found[1], Manifests)
    assert str(found[1]) == "apply web.yaml"
    assert [document.kind for document in found[1].documents] == ["Service"]
    assert found[2] == Drain("n1")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "an object with apiVersion, kind and steps is expected, not a list"),
        ("", "there is nothing in it; an object with apiVersion, kind and steps is expected"),
        ("# a comment", "there is nothing in it; an object with apiVersion, kind and steps is expected"),
        ("drain", "an object with apiVersion, kind and steps is expected, not a text"),
        ("3", "an object with apiVersion, kind and steps is expected, not a number"),
        ("true", "an object with apiVersion, kind and steps is expected, not true or false"),
        ("2026-01-01", "an object with apiVersion, kind and steps is expected, not a date"),
        (f"{HEAD}---\n{HEAD}", "there are several documents in it; a scenario is one"),
        ("kind: Scenario\nsteps: [{drain: n1}]", "apiVersion: 'berth.dev/v1' is expected, not None"),
        ("apiVersion: berth.dev/v2\nkind: Scenario", "apiVersion: 'berth.dev/v1' is expected, not 'berth.dev/v2'"),
        (HEAD + "stages: []", "stages: no such field; there are apiVersion, kind, metadata and steps"),
        (HEAD + "steps: []", "steps: a list of at least one step is expected"),
        (HEAD + "steps: [drain]", "steps[0]: a step has exactly one key, one of drain, cordon,"),
        (HEAD + "steps: [{drain: n1, cordon: n2}]", "steps[0]: a step has exactly one key"),
        (HEAD + "steps: [{drain: n1}, {drian: n1}]", "steps[1]: no step is called 'drian'"),
        (HEAD + "steps: [{scale: {workload: rs/a, replicas: x}}]", "steps[0].scale.replicas: Expected `int`"),
        (HEAD + "steps: [{apply: none.yaml}]", "steps[0].apply: "),
        (HEAD + "steps: [{apply: 3}]", "steps[0].apply: the name of a file is expected"),
        ("a: [", "not readable as YAML"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path, text, problem):
    file = written(tmp_path, text)
    with pytest.raises(ChangeError) as error:
        read_scenario(file)
    assert str(error.value).startswith(f"{file}: {problem}")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_one_that_is_a_bomb_are_refused(tmp_path):
    with pytest.raises(ChangeError, match=r"none\.yaml: No such file or directory"):
        read_scenario(tmp_path / "none.yaml")
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(ChangeError, match="not readable as YAML"):
        read_scenario(written(tmp_path, bomb))
