"""The experiments that papers and learners may repeat run, on days that are small."""

import importlib.util
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tests.paths import ROOT


def module(*path):
    """Load an example as a module of its own."""
    file = ROOT.joinpath("examples", *path)
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def paper(monkeypatch):
    """Load the experiment of a paper, and forget its modules afterwards: several call theirs by the same names."""
    before = set(sys.modules)

    def loaded(name):
        monkeypatch.syspath_prepend(ROOT / "examples" / "papers" / name)
        return module("papers", name, "run.py")

    yield loaded
    for name in ("common", "one_gpu", "policies"):
        if name not in before:
            sys.modules.pop(name, None)


def run_as_command(run, monkeypatch, capsys, *arguments):
    """Carry out an experiment as its command does; return the rows of its tables, by the first cell."""
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    run.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for line in lines if (cells := [cell.strip() for cell in line.strip("|").split("|")])}


def test_the_fgd_experiment(paper, monkeypatch, capsys, tmp_path):
    run = paper("fgd")
    monkeypatch.setattr(run, "NODES", [(8, 96, 768), (4, 64, 384), (2, 64, 256)])
    figure = tmp_path / "figure.svg"
    rows = run_as_command(run, monkeypatch, capsys, "--seeds", "2", "--figure", str(figure))
    assert set(run.POLICIES) <= rows.keys()
    assert all(50 < float(rows[policy][2].split()[0]) <= 100 for policy in run.POLICIES)
    assert figure.read_text().count("ties by") >= 2


def test_the_fgd_experiment_takes_openbs_files(paper, tmp_path):
    run = paper("fgd")
    nodes = [f"node-{number},64000,262144,{gpus},G2" for number, gpus in enumerate((4, 2, 0))]
    (tmp_path / "openb_node_list_gpu_node.csv").write_text("\n".join(["sn,cpu_milli,memory_mib,gpu,model", *nodes]))
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    pods = [f"p{number},4000,8192,1,{milli},,LS,Running,0,9,0" for number, milli in enumerate((300, 500, 1000, 1000))]
    (tmp_path / "openb_pod_list_default.csv").write_text("\n".join([head, *pods]))
    workload = run.openb(tmp_path, 1)
    assert (workload.gpus, len(workload.nodes)) == (6000, 2)
    asked = sum(pod.resources[run.MILLI] for pod in workload.pods)
    assert 1.3 * 6000 <= asked < 1.3 * 6000 + 1000
    assert sorted(workload.typical())[0][:2] == (4000, 300)
    assert run.allocated(workload, "fgd", "name") == run.allocated(workload, "fgd", "name")


def test_fragments_are_counted_as_the_paper_does(paper):
    """Section 4.2: what a task cannot use is all GPUs where it does not fit, else those with less left than it asks."""
    paper("fgd")
    from one_gpu import Expected

    kinds = ((1000, 500, 1), (1000, 2000, 1), (9000, 100, 1), (1000, 0, 1))
    left = np.array([[1000, 400, 300, 0, 0, 0, 0, 0]])
    by_kind = [Expected([kind]).fragments(np.array([8000]), left)[0] for kind in kinds]
    # Half a GPU: 400 and 300 are too little. Two whole ones, nine CPUs: nothing is of use, nor to who asks for no GPU.
    assert by_kind == [700, 1700, 1700, 1700]
    assert Expected(kinds).fragments(np.array([8000]), left)[0] == sum(by_kind) / 4


def test_the_example_of_dominant_resource_fairness_and_its_queues(paper, monkeypatch, capsys):
    run = paper("drf")
    monkeypatch.setattr(run, "NODES", 1)
    monkeypatch.setattr(run, "MANY", 25)
    rows = run_as_command(run, monkeypatch, capsys, "--seeds", "2")
    assert rows["paper"][:2] == ["3", "2"]
    assert float(rows["FairShares"][0].split()[0]) > 0.9


def test_gangs_with_and_without_backfilling(paper, monkeypatch, capsys):
    run = paper("gangs")
    for name, value in {"NODES": 1, "JOBS": 12, "SIZES": (1, 2, 4, 8), "HOURS": 0.5}.items():
        monkeypatch.setattr(run, name, value)
    rows = run_as_command(run, monkeypatch, capsys, "--seeds", "2")
    assert {"in order", "EASY backfilling", "whichever fits"} <= rows.keys()
    assert float(rows["EASY backfilling"][1].split()[0]) >= 0


@pytest.mark.skipif(not find_spec("ortools"), reason="OR-Tools is not installed")
def test_packing_against_a_solver(paper, monkeypatch, capsys):
    run = paper("packing")
    monkeypatch.setattr(run, "NODES", 2)
    rows = run_as_command(run, monkeypatch, capsys, "--seeds", "3")
    placed = {name: float(cells[0].split()[0]) for name, cells in rows.items() if name in ("default", "CP-SAT")}
    assert placed["default"] <= placed["CP-SAT"] <= 100


def test_descheduling(paper, monkeypatch, capsys):
    run = paper("descheduling")
    for name, value in {"OLD": 2, "NEW": 1, "WORKLOADS": 4, "FILLED": 0.6}.items():
        monkeypatch.setattr(run, name, value)
    rows = run_as_command(run, monkeypatch, capsys, "--seeds", "1")
    assert set(run.POLICIES) <= rows.keys()
    assert rows["nothing"][0] == "0.0"
    assert float(rows["rebalance, even out"][1]) < float(rows["nothing"][1])


def test_what_the_deschedulers_policies_evict(paper):
    """As its documentation says of them: above the upper threshold, below the lower one, more than an even share."""
    paper("descheduling")
    from policies import high_node_utilization, low_node_utilization, remove_duplicates

    import berth
    from tests.test_library import node, pod

    scheduler = berth.Scheduler()
    scheduler.add(*(node(f"n{number}", cpu="10") for number in (1, 2, 3)))
    for number in range(4):
        scheduler.add(pod(f"a{number}", cpu="2", nodeName="n1"))
    scheduler.add(pod("b", cpu="2", nodeName="n2"))
    cluster = {"n1": [f"default/a{number}" for number in range(4)], "n2": ["default/b"], "n3": []}
    assert low_node_utilization(scheduler, cluster, 0.3, 0.5) == ["default/a3", "default/a2"]
    assert high_node_utilization(scheduler, cluster, 0.3) == ["default/b"]
    assert remove_duplicates(cluster, {each: each[-2] for pods in cluster.values() for each in pods}) == [
        "default/a2",
        "default/a3",
    ]


@pytest.mark.skipif(not find_spec("gymnasium"), reason="gymnasium is not installed")
def test_a_learned_policy_is_judged_and_written_for_model_score(monkeypatch, tmp_path, capsys):
    learn = module("learn_placement", "learn.py")
    small = learn.DailyPattern(pods=30, nodes=4, services=1, seconds=1800.0, gpu_nodes=2, node_gpus=2)
    monkeypatch.setattr(learn, "PATTERN", small)
    vector = np.random.default_rng(0).normal(size=learn.SIZE)
    learn.judge(vector, 2)
    assert capsys.readouterr().out.count("On 2 days the learned policy") == 3
    learn.draw_curve([(1.0, 9.0), (2.0, 8.5)], tmp_path / "curve.svg")
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    if not find_spec("onnx"):
        return
    learn.write_model(vector, tmp_path)
    import berth
    from berth_plugins.model_score import ModelScore

    env = learn.TraceEnv(learn.day(5), observation=learn.NodeShares(learn.GPU, learn.MILLI))
    seen, _ = env.reset(seed=5)
    scheduler = berth.Scheduler(tmp_path / "learned.yaml", plugins=[ModelScore])
    scheduler.add(*[record.node() for record in learn.day(5).records if hasattr(record, "price")])
    totals = scheduler.schedule(env.pod).totals
    chosen = env.node_names[learn.policy(vector)(env, seen)]
    assert totals[chosen] == max(totals.values()) > min(totals.values())
