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


@pytest.mark.parametrize("policy", ["fgd", "pack-gpus", "best-fit", "default", "random"])
def test_every_policy_of_the_fgd_experiment_fills_the_gpus(policy, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "papers" / "fgd")
    run = module("papers", "fgd", "run.py")
    sys.modules.pop("one_gpu", None)
    monkeypatch.setattr(run, "NODES", [(8, 96, 768), (4, 64, 384), (2, 64, 256)])
    shares = [run.allocated(policy, seed) for seed in range(2)]
    assert all(0.5 < share <= 1 for share in shares)
    assert run.allocated(policy, 1) == shares[1]


@pytest.mark.skipif(not find_spec("gymnasium"), reason="gymnasium is not installed")
def test_a_learned_policy_is_judged_and_written_for_model_score(monkeypatch, tmp_path, capsys):
    learn = module("learn_placement", "learn.py")
    small = learn.DailyPattern(pods=30, nodes=4, services=1, seconds=1800.0, gpu_nodes=2, node_gpus=2)
    monkeypatch.setattr(learn, "PATTERN", small)
    vector = np.random.default_rng(0).normal(size=learn.SIZE)
    learn.judge(vector, 2)
    assert "On 2 days the learned policy" in capsys.readouterr().out
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
