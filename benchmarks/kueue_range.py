"""Kueue's own range test, in virtual time: how long 15,000 workloads take to be simulated.

Thirty ClusterQueues in five cohorts have 20 CPUs each and may borrow 100. Each gets 350 small workloads (1 CPU, every
100 ms), 100 medium ones (5 CPUs, every 500 ms) and 50 large ones (20 CPUs, every 1.2 s), the larger the more important;
they run for 0.2, 0.5 and 1 s. Source: kubernetes-sigs/kueue, test/performance/scheduler.

    python benchmarks/kueue_range.py [--scale 0.1]
"""

import argparse
import resource
import time
from datetime import UTC, datetime, timedelta

from berth_kueue.lives import Queues
from berth_kueue.simulation import Arrival, QueueSimulation

API = "kueue.x-k8s.io/v1beta2"
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
NAMES = [f"cohort-{cohort}-queue-{queue}" for cohort in range(5) for queue in range(6)]
CLASSES = (("small", 350, 0.1, 0.2, 1, 50), ("medium", 100, 0.5, 0.5, 5, 100), ("large", 50, 1.2, 1.0, 20, 200))


def objects():
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    yield {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}
    for name in NAMES:
        quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
        spec = {
            "cohortName": name.partition("-queue")[0],
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [quota]}]}],
        }
        yield {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        metadata = {"name": name, "namespace": "default"}
        yield {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": name}}


def arrivals(scale):
    for queue in NAMES:
        for size, count, every_s, runs_s, cpu, priority in CLASSES:
            for number in range(int(count * scale)):
                created = f"{START + timedelta(seconds=int(number * every_s)):%Y-%m-%dT%H:%M:%SZ}"
                name = f"{queue}-{size}-{number}"
                container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
                pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
                workload = {
                    "apiVersion": API,
                    "kind": "Workload",
                    "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created},
                    "spec": {"queueName": queue, "priority": priority, "podSets": [pod_set]},
                }
                yield Arrival(number * every_s, workload, runs_s)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the workloads")
    given = list(arrivals(parser.parse_args().scale))
    began = time.process_time()
    result = QueueSimulation(Queues(objects(), {"start": f"{START:%Y-%m-%dT%H:%M:%SZ}"})).run(given)
    seconds, waits = time.process_time() - began, result.waits()
    ended = sum(each.ended is not None for each in result.lives.values())
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{ended:,} of {len(given):,} workloads ended after {result.until:.0f} s, in {result.cycles:,} cycles")
    used = result.utilisation["any"]["cpu"]
    print(f"waited {waits.mean_s:.1f} s in the mean, {waits.most_s:.1f} s at most; {used:.0%} of the CPUs were used")
    print(f"took {seconds:.1f} s of CPU, {seconds / len(given) * 1000:.2f} ms a workload, {rss} MB")


if __name__ == "__main__":
    main()
