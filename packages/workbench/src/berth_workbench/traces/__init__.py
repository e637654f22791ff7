"""Workloads over time: traces of others, patterns of our own, and what a scheduler makes of them."""
