"""Kube-scheduler's own benchmark, scheduler_perf: its documents as they are, played in process or on a cluster."""
