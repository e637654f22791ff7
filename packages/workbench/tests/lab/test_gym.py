"""The environment: Gymnasium's own checks, masks that are the filters' word, and waits that a person can count."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from berth_workbench.lab.gym import NodeShares, TraceEnv, vector_env
from berth_workbench.traces.generator import DailyPattern, daily_pattern
from berth_workbench.traces.run import TraceRun
from berth_workbench.traces.trace import JobStarts, NodeComes, NodeGoes, PodShapeGiven, TimedWorkload, TraceHeader

GPU = "nvidia.com/gpu"
PATTERN = DailyPattern(pods=120, nodes=4, services=2, seconds=3600.0, gpu_nodes=2, node_gpus=2)


def day(seed):
    return daily_pattern(PATTERN, seed)


def small(*records, seconds=1000.0):
    nodes = [NodeComes(at=0.0, name=name, cpu=cpu, memory=2**30) for name, cpu in (("a", 1000), ("b", 2000))]
    return TimedWorkload(TraceHeader(seconds=seconds), (*nodes, *records))


def job(name, at, cpu, run, pods=1):
    return JobStarts(at=at, name=name, pods=pods, runs=(run,), shape=PodShapeGiven(cpu=cpu))


def test_gymnasium_finds_nothing_wrong():
    gymnasium.register("berth-test/Day-v0", lambda **options: TraceEnv(day, observation=NodeShares(GPU), **options))
    check_env(gymnasium.make("berth-test/Day-v0", render_mode="ansi").unwrapped)


def test_waits_are_counted_and_masks_are_what_fits():
    env = TraceEnv(small(job("x", 0.0, 1500, 100.0), job("y", 10.0, 1000, 50.0, pods=2), job("z", 20.0, 9000, 1.0)))
    _, info = env.reset(seed=1)
    assert env.node_names == ("a", "b")
    assert info["action_mask"].tolist() == [0, 1, 1]
    _, reward, done, _, info = env.step(1)
    assert (env.pod.key, env.now, reward, done) == ("default/y-0", 10.0, 0.0, False)
    assert info["action_mask"].tolist() == [1, 0, 1]
    # y-1 fits nowhere until y-0 ends at 60; z never fits: from 20 on both wait.
    _, reward, done, _, info = env.step(0)
    assert (env.pod.key, env.now) == ("default/y-1", 60.0)
    assert reward == pytest.approx(-(10 + 2 * 40) / 3600)
    _, reward, done, _, _ = env.step(0)
    assert done
    assert env.total_waited_s == 10 + 2 * 40 + (1000 - 60)


def test_what_is_masked_out_leaves_the_pod_waiting():
    env = TraceEnv(small(job("x", 0.0, 1500, 100.0), job("y", 10.0, 100, 5.0)))
    env.reset(seed=1)
    env.step(0)
    assert env.scheduler.placements == {}
    assert env.pod.key == "default/y-0"
    env.step(0)
    assert env.pod.key == "default/x-0"  # asked about again once y has ended
    assert env.now == 15.0


def test_nodes_go_with_what_runs_there():
    env = TraceEnv(small(job("x", 0.0, 500, 100.0), NodeGoes(at=5.0, name="a"), job("y", 10.0, 500, 5.0)))
    env.reset(seed=1)
    env.step(0)
    assert env.pod.key == "default/y-0"
    assert env.action_masks().tolist() == [False, True, True]
    assert env.scheduler.placements == {}
    assert env.amounts("cpu")[0].tolist() == [0, 2000]


def test_an_observation_and_a_reward_of_ones_own():
    class Free:
        def space(self, nodes):
            return NodeShares().space(nodes)

        def of(self, env):
            has, used = env.amounts("cpu")
            return has - used

    env = TraceEnv(small(job("x", 0.0, 500, 9.0)), observation=Free(), reward=lambda env: env.placed)
    seen, _ = env.reset(seed=1)
    assert seen.tolist() == [1000, 2000]
    assert env.requests["cpu"] == 500
    assert env.step(1)[1] == 1.0


def test_the_default_action_is_what_the_scheduler_does():
    trace = day(3)
    env = TraceEnv(trace)
    env.begin(trace)
    while env.pod is not None:
        env.step(env.default_action())
    result = TraceRun(trace).live()
    assert env.placed == result.bound - result.failed - result.preempted
    assert env.total_waited_s >= 0


def test_several_beside_each_other():
    envs = vector_env(3, day, observation=NodeShares(GPU))
    seen, info = envs.reset(seed=[1, 2, 1])
    assert seen.shape == (3, 4, 7)
    assert np.array_equal(seen[0], seen[2]) and not np.array_equal(seen[0], seen[1])
    assert info["action_mask"].shape == (3, 5)
    actions = [int(np.flatnonzero(mask)[0]) for mask in info["action_mask"]]
    _, rewards, *_ = envs.step(actions)
    assert rewards.shape == (3,)
