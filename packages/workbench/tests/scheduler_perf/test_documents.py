"""Documents of scheduler_perf: parameters, templates, thresholds, and what is told of those that cannot be used."""

import pytest

from berth_workbench.scheduler_perf.documents import PerfError, PerfTemplate, read_workloads
from packages.workbench.tests.scheduler_perf.documents import measured, nodes, written


def only(path):
    (workload,) = read_workloads(path)
    return workload


def test_parameters_stand_for_values(tmp_path):
    path = written(
        tmp_path,
        {"opcode": "createNodes", "countParam": "$many"},
        {"opcode": "sleep", "durationParam": "$long"},
        params={"many": 3, "long": "1m500ms", "forGoAlone": 7},
    )
    workload = only(path)
    assert workload.title == "Test/small"
    assert workload.operations[0].get("count") == 3
    assert workload.operations[1].seconds("duration") == pytest.approx(60.5)
    assert workload.unused == ("forGoAlone",)


@pytest.mark.parametrize(
    ("threshold", "demanded"), [(270, 270.0), ({"there": 40}, 40.0), ({"elsewhere": 40}, None), (None, None)]
)
def test_what_is_demanded_goes_by_the_folder_where_it_is_a_map(tmp_path, threshold, demanded):
    folder = tmp_path / "there"
    folder.mkdir()
    assert only(written(folder, nodes(1), threshold=threshold)).threshold == demanded


def test_what_is_demanded_of_another_measure_is_no_number_of_pods(tmp_path):
    path = written(tmp_path, nodes(1), threshold=3, thresholdMetricSelector={"name": "other", "dataBucket": "Perc99"})
    assert only(path).threshold is None


def test_gates_of_a_workload_go_before_those_of_its_test(tmp_path):
    path = written(tmp_path, nodes(1), featureGates={"GangScheduling": True, "SchedulerQueueingHints": False})
    workload = only(path)
    assert workload.gates == {"GangScheduling": True, "SchedulerQueueingHints": False}
    assert workload.gates_here == {"GangScheduling": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{.Index}}", 7),
        ("{{ .Count }}", 20),
        ("{{Mod .Index 4}}", 3),
        ("{{DivideInt .Index 2}}", 3),
        ("{{AddInt .Index 1 2}}", 10),
        ("{{MultiplyFloat .Index 0.5}}", 3.5),
        ("{{SubtractInt .Count .Index}}", 13),
    ],
)
def test_templates_know_the_number_of_what_they_make(tmp_path, text, value):
    path = tmp_path / "t.yaml"
    path.write_text(f"kind: Pod\nvalue: {text}\n")
    assert PerfTemplate(path).made(7, 20)["value"] == value


def test_objects_of_one_template_have_metadata_of_their_own(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("kind: Pod\nmetadata: {generateName: p-}\n")
    template = PerfTemplate(path)
    template.made(0, 2)["metadata"]["name"] = "changed"
    assert template.made(1, 2)["metadata"] == {"generateName": "p-"}


@pytest.mark.parametrize(
    ("text", "why"),
    [("kind: {{Pow .Index 2}}\n", "Pow .Index 2"), ("- 1\n", "holds no object"), ("kind: [\n", "expected")],
)
def test_a_template_that_cannot_be_used(tmp_path, text, why):
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(PerfError, match=r"t\.yaml") as refused:
        PerfTemplate(path).made(0, 1)
    assert why in str(refused.value)


def test_a_parameter_that_is_not_there(tmp_path):
    path = written(tmp_path, measured(1), {"opcode": "createNodes", "countParam": "$many"})
    with pytest.raises(PerfError, match=r"Test/small: operation 1: the workload has no parameter \$many"):
        only(path).operations[1].get("count")


@pytest.mark.parametrize("text", ["{}", "[1]", "[", None])
def test_a_file_that_holds_no_tests(tmp_path, text):
    path = tmp_path / "performance-config.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PerfError, match=r"performance-config\.yaml"):
        list(read_workloads(path))
