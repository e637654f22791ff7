"""Sweeps: the same results wherever the runs are carried out, kept when interrupted, and run again when changed."""

import warnings
from collections import Counter

import msgspec
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

import berth
from berth.cli import main
from berth.core.builders import make_node, make_pod
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.comparison.executors import _told
from berth_workbench.comparison.loads import hash_of, packed, unpacked
from berth_workbench.comparison.results import ResultRow, ResultsDirectory
from berth_workbench.comparison.run import run
from berth_workbench.comparison.sweep import Sweep, SweepError, carry_out_sweep
from berth_workbench.comparison.tasks import TaskDescription, TaskError, carry_out
from berth_workbench.simulation.watch import WorkWatch
from packages.workbench.tests.asking import WatchUntil, stopped
from packages.workbench.tests.comparison.clusters import document, random_load, random_settings, source


def sweep(*, seeds=(0, 1), loads=(1, 2), settings=(3, 4), prices=None):
    """Two loads, two configurations and two seeds, if nothing else is asked for: eight runs."""
    contents = {f"load-{number}": packed(random_load(number)) for number in loads}
    return Sweep(contents, [source(random_settings(each), f"c{each}") for each in settings], seeds, prices)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The table of the sweep of eight, carried out in one process without interruption."""
    return table(sweep(), tmp_path_factory.mktemp("whole"))


def table(given, directory, **how):
    found = carry_out_sweep(given, ResultsDirectory(directory), **how)
    assert found.is_complete and found.is_parquet and not found.failed
    return (directory / "results.parquet").read_bytes()


def test_a_sweep_is_every_combination_once_and_its_figures_are_those_of_the_run_alone(whole, tmp_path):
    (tmp_path / "results.parquet").write_bytes(whole)
    rows = pq.read_table(tmp_path / "results.parquet").to_pylist()
    found = {}
    for row in rows:
        found.setdefault((row["load"], row["configuration"], row["seed"]), {})[row["measure"]] = row["value"]
    assert len(found) == 8
    for (load, configuration, seed), figures in found.items():
        settings = random_settings(int(configuration.removeprefix("c")))
        alone = run(random_load(int(load.removeprefix("load-"))), source(settings).load(), seed)
        assert figures == alone.figures


def test_two_processes_come_to_the_same_as_one(whole, tmp_path):
    assert table(sweep(), tmp_path, watch=WorkWatch(jobs=2)) == whole


@pytest.mark.filterwarnings("default")
@pytest.mark.long
def test_two_workers_of_a_dask_cluster_come_to_the_same_as_one_process(whole, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's own, about event loops and sockets
        from distributed import LocalCluster

        ours = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(host="127.0.0.1", **ours) as cluster:
            assert len(cluster.workers) == 2
            assert table(sweep(), tmp_path, dask=cluster.scheduler_address) == whole
            failing = Sweep({"broken": b"{}"}, [ConfigurationSource("default")], [0])
            found = carry_out_sweep(failing, ResultsDirectory(tmp_path), dask=cluster.scheduler_address)
            assert (found.is_complete, found.table, sum(found.failed.values())) == (False, "", 1)


def test_no_dask_cluster_where_one_is_said_to_be(tmp_path, monkeypatch):
    import distributed

    def client(address, **how):
        raise OSError(f"Timed out trying to connect to {address} after 10 s")

    monkeypatch.setattr(distributed, "Client", client)
    with pytest.raises(TaskError, match=r"--dask tcp://127.0.0.1:9: no Dask scheduler answers there: Timed out"):
        carry_out_sweep(sweep(), ResultsDirectory(tmp_path), dask="tcp://127.0.0.1:9")


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupted_sweep_goes_on_where_it_stopped_and_comes_to_the_same(whole, tmp_path, after):
    watch = WatchUntil(lambda _: watch.done == after)
    first = carry_out_sweep(sweep(), ResultsDirectory(tmp_path), watch=watch)
    assert (first.runs, first.kept, first.done, first.table, first.is_complete) == (8, 0, after, "", False)
    assert not (tmp_path / "results.parquet").exists()
    rest = WorkWatch()
    again = carry_out_sweep(sweep(), ResultsDirectory(tmp_path), watch=rest)
    assert (again.kept, again.done, again.is_complete, rest.done) == (after, 8 - after, True, 8 - after)
    assert (tmp_path / "results.parquet").read_bytes() == whole


def test_stopped_processes_give_up_what_is_not_done(tmp_path):
    watch = stopped(jobs=2)
    found = carry_out_sweep(sweep(), ResultsDirectory(tmp_path), watch=watch)
    assert found.done < 8 and not found.failed
    assert len(list((tmp_path / "runs").iterdir())) == found.done


def test_only_what_has_changed_runs_again(tmp_path):
    from berth_workbench.simulation.prices import Prices

    directory = ResultsDirectory(tmp_path)

    def done(given):
        found = carry_out_sweep(given, directory)
        return found.kept, found.done

    assert done(sweep()) == (0, 8)
    assert done(sweep()) == (8, 0)
    assert done(sweep(seeds=(0, 1, 2))) == (8, 4)
    assert done(sweep(loads=(1, 5))) == (4, 4)
    assert done(sweep(settings=(4, 5))) == (4, 4)
    assert done(sweep(prices=Prices(default=1.0))) == (0, 8)
    some = next((tmp_path / "runs").iterdir())
    some.write_bytes(b'{"key": "half')
    assert sum(done(given)[1] for given in (sweep(), sweep(prices=Prices(default=1.0)), sweep(loads=(1, 5)))) <= 1


def test_a_plugins_file_counts_by_what_is_in_it(tmp_path):
    plugin = tmp_path / "mine.py"
    keys = set()
    for text in ("a = 1", "a = 2"):
        plugin.write_text(text)
        keys.add(TaskDescription("hash", ConfigurationSource("c", plugins=(f"{plugin}:Mine",)), 0).key)
    assert len(keys) == 2
    assert (
        TaskDescription("hash", ConfigurationSource("a"), 0).key
        == TaskDescription("hash", ConfigurationSource("b"), 0).key
    )


def test_a_worker_takes_only_what_is_described():
    content = packed(random_load(1))
    task = TaskDescription(hash_of(content), ConfigurationSource("default"), 0)
    with pytest.raises(TaskError, match="not the one that it describes"):
        carry_out(msgspec.json.encode(task), content + b"\n")
    other = msgspec.structs.replace(task, version="0.0")
    with pytest.raises(TaskError, match=rf"this worker has Berth {berth.__version__}, the sweep was begun by 0.0"):
        carry_out(msgspec.json.encode(other), content)


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    plugin = tmp_path / "broken_ctor.py"
    plugin.write_text(
        "class BrokenHere:\n    name = 'BrokenHere'\n"
        "    def __init__(self, args, handle):\n        raise RuntimeError('no')\n"
        "    def filter(self, state, pod, node):\n        return None\n"
    )
    given = Sweep(
        {"one": packed(random_load(1))},
        [ConfigurationSource("broken", plugins=(f"{plugin}:BrokenHere",)), source(random_settings(3), "well")],
        [0],
    )
    found = carry_out_sweep(given, ResultsDirectory(tmp_path))
    assert (found.runs, found.done, found.table) == (2, 1, "")
    ((said, count),) = found.failed.items()
    assert "BrokenHere" in said and count == 1


def test_without_pyarrow_the_table_is_json_lines(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    rows = [ResultRow("l", "c", 0, "cost", 1.5)]
    path, is_parquet = ResultsDirectory(tmp_path).write_table(rows)
    assert (path.name, is_parquet) == ("results.jsonl", False)
    assert msgspec.json.decode(path.read_bytes()) == msgspec.structs.asdict(rows[0])


@pytest.fixture
def files(tmp_path):
    nodes = [make_node(f"n{i}").capacity(cpu="8", memory="8Gi", pods="20").zone("ab"[i % 2]).document for i in range(4)]
    pods = [make_pod(f"p{i}").request(cpu="1").owned_by("ReplicaSet", "r").document for i in range(6)]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(nodes))
    (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods))
    (tmp_path / "some.yaml").write_text(yaml.safe_dump(document(random_settings(1))))
    (tmp_path / "prices.yaml").write_text(yaml.safe_dump({f"n{i}": 1 for i in range(4)}))
    whole = {"cluster": "cluster.yaml", "manifests": "pods.yaml"}
    given = {
        "seeds": 2,
        "configurations": {"default": "default", "some": {"file": "some.yaml"}},
        "clusters": {"whole": whole, "half": {**whole, "steps": [{"loseZone": "a"}]}},
        "prices": "prices.yaml",
    }
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(given))
    return tmp_path


def test_the_command(files):
    def invoke(*args):
        return CliRunner().invoke(main, ["sweep", str(files / "sweep.yaml"), "--jobs", "1", *args])

    first = invoke()
    assert first.exit_code == 0, first.output
    assert first.output.startswith("8 runs: 8 carried out, 0 kept from before")
    assert max(map(len, first.output.splitlines()[:-1])) <= 80
    found = msgspec.json.decode(invoke("-o", "json").stdout)
    assert (found["runs"], found["kept"], found["isParquet"]) == (8, 8, True)
    means = {(each["load"], each["configuration"], each["measure"]): each for each in found["summaries"]}
    assert means["whole", "default", "nodes"]["mean"] == 4
    assert means["half", "default", "nodes"]["mean"] == 2
    assert means["half", "some", "pending"] == {
        "load": "half",
        "configuration": "some",
        "measure": "pending",
        "mean": 0,
        "deviation": 0,
        "runs": 2,
    }
    unknown = invoke("--measure", "speed", "--measure", "nodes")
    assert (unknown.exit_code, "half" in unknown.stdout) == (0, True)
    assert unknown.stderr.startswith("warning: --measure speed: there is no such measure; there are ")


def test_an_empty_file(tmp_path):
    (tmp_path / "sweep.yaml").write_text("# later\n")
    with pytest.raises(SweepError, match=r"sweep\.yaml: there is nothing in it"):
        Sweep.read(tmp_path / "sweep.yaml")


def test_what_failed_is_counted_in_words_and_tried_again(files):
    (files / "broken.py").write_text(
        "class Broken:\n    name = 'Broken'\n    def __init__(self, args, handle):\n        raise RuntimeError('no')\n"
        "    def filter(self, state, pod, node):\n        return None\n"
    )
    given = {
        "configurations": {"broken": {"plugins": ["broken.py:Broken"]}},
        "clusters": {"c": {"cluster": "cluster.yaml", "manifests": "pods.yaml"}},
    }
    (files / "sweep.yaml").write_text(yaml.safe_dump(given))
    told = CliRunner().invoke(main, ["sweep", str(files / "sweep.yaml"), "--jobs", "1"])
    assert told.exit_code == 1
    assert "1 run failed: " in told.stderr
    assert "1 of 1 run is missing; the same command again tries it again" in told.stderr


def test_our_own_errors_are_told_without_their_class():
    assert _told(TaskError("install the same on both")) == "install the same on both"
    assert _told(RuntimeError("no\nway")) == "RuntimeError: no way"


@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_a_scheme_that_dask_does_not_have_is_refused_at_once(files, command, monkeypatch):
    import distributed

    monkeypatch.setattr(distributed, "Client", None)  # nobody tries to connect
    args = [str(files / "sweep.yaml")] if command == "sweep" else ["--cluster", str(files / "cluster.yaml")]
    (files / "pods.yaml").write_text("kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n")
    args += ["--objective", "cost", "-f", str(files / "pods.yaml")] if command == "tune" else []
    told = CliRunner().invoke(main, [command, *args, "--dask", "foo://x"])
    assert told.exit_code == 1, told.output
    assert "--dask foo://x: no scheme is called 'foo'; there are tcp, tls" in told.stderr


class LosingFuture:
    """A run that the cluster has given up, or that was carried out."""

    def __init__(self, result):
        self._result = result

    def add_done_callback(self, call):
        call(self)

    def cancelled(self):
        return self._result is None

    def exception(self):
        return None

    def result(self):
        return self._result


@pytest.mark.parametrize(("losses", "failures"), [(1, 0), (3, 0), (4, 8)])
def test_runs_whose_load_is_gone_with_a_worker_are_tried_again(whole, tmp_path, monkeypatch, losses, failures):
    """A worker that is killed takes what lies on it along: loads lie on all workers, and are sent anew."""
    import distributed

    submitted, sent = Counter(), []

    class Client:
        def __init__(self, address, **how):
            pass

        def scatter(self, content, broadcast):
            assert broadcast
            sent.append(content)
            return content

        def submit(self, function, task, content, key):
            submitted[task] += 1
            return LosingFuture(None if submitted[task] <= losses else function(task, content))

        def close(self):
            pass

    monkeypatch.setattr(distributed, "Client", Client)
    if failures:
        found = carry_out_sweep(sweep(), ResultsDirectory(tmp_path), dask="tcp://h:1")
        assert found.failed == {"the cluster has given it up": failures}
    else:
        assert table(sweep(), tmp_path, dask="tcp://h:1") == whole
    assert len(sent) == 2 + 8 * min(losses, 3)


def test_a_dask_cluster_that_goes_away(tmp_path, monkeypatch):
    import distributed

    class Client:
        def __init__(self, address, **how):
            pass

        def scatter(self, content, broadcast):
            raise TimeoutError

        def close(self):
            raise TimeoutError

    monkeypatch.setattr(distributed, "Client", Client)
    with pytest.raises(TaskError, match=r"--dask tcp://h:1: the Dask scheduler answers no more: TimeoutError"):
        carry_out_sweep(sweep(), ResultsDirectory(tmp_path), dask="tcp://h:1")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"configurations": {}}, "configurations: at least one is needed"),
        ({"configurations": {"x": "none.yaml"}}, "none.yaml: cannot read the configuration file"),
        ({"clusters": {}}, "clusters: at least one is needed"),
        ({"clusters": {"c": {"cluster": "none.yaml"}}}, "none.yaml"),
        ({"clusters": {"c": {"cluster": "cluster.yaml"}}}, "clusters.c: nothing to do"),
        ({"clusters": {"c": {"cluster": "cluster.yaml", "steps": [{"fly": 1}]}}}, "no step is called 'fly'"),
        ({"clusters": {"c": {"cluster": "cluster.yaml", "steps": [{"a": 1, "b": 2}]}}}, "a step has exactly one key"),
        ({"seeds": 0}, "seeds: a number of 1 or more"),
        ({"seeds": "four"}, "Expected `int | array`, got `str`"),
        ({"seeds": 100_000}, "no more than 100000 are carried out"),
        ({"prices": "none.yaml"}, "none.yaml"),
        ({"seeds": 5_000_000_000}, "seeds: 5000000000: no more than 100000 runs"),
        ({"colour": "red"}, "'colour' is not known; known are configurations, clusters, traces, seeds, prices"),
        ({"clusters": {"c": {"foo": 1}}}, "clusters.c: 'foo' is not known; known are cluster, manifests, replaceAll"),
        ({"configurations": {"c": {"plugin": []}}}, "configurations.c: 'plugin' is not known; known are file"),
        ({"traces": {"t": {"pattern": {"pods": 10**12}}}}, "traces.t.pattern.pods: 1000000000000 is not from 1 to"),
    ],
)
def test_a_sweep_that_cannot_be_used_is_told_in_one_line(files, change, problem):
    given = yaml.safe_load((files / "sweep.yaml").read_text())
    (files / "sweep.yaml").write_text(yaml.safe_dump({**given, **change}))
    with pytest.raises(SweepError) as told:
        Sweep.read(files / "sweep.yaml")
    assert problem in str(told.value)
    assert "\n" not in str(told.value)


def test_a_scenario_is_carried_out_with_what_it_applies(files):
    more = [make_pod(f"more{i}").request(cpu="1").owned_by("ReplicaSet", "r").document for i in range(3)]
    (files / "more.yaml").write_text(yaml.safe_dump_all(more))
    steps = [{"addNodes": {"like": "n0", "count": 2}}, {"apply": "more.yaml"}]
    scenario = {"apiVersion": "berth.dev/v1", "kind": "Scenario", "steps": steps}
    (files / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    clusters = {"more": {"cluster": "cluster.yaml", "scenario": "scenario.yaml", "steps": [{"loseZone": "b"}]}}
    given = {"configurations": {"d": "default"}, "clusters": clusters}
    (files / "sweep.yaml").write_text(yaml.safe_dump(given))
    (one,) = Sweep.read(files / "sweep.yaml").runs
    load = unpacked(Sweep.read(files / "sweep.yaml").contents[one.task.load])
    found = run(load, ConfigurationSource("default").load(), 0).figures
    assert (found["nodes"], found["pods"], found["pending"]) == (2 + 2, 3, 0)


def test_steps_are_part_of_a_load(files):
    whole = Sweep.read(files / "sweep.yaml")
    loads = {each.load: unpacked(whole.contents[each.task.load]) for each in whole.runs}
    assert loads["half"].steps == (("loseZone", {"zone": "a"}),)
    assert packed(loads["half"]) in whole.contents.values()
