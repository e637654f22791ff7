"""Workloads over time: published traces, generated patterns, and how a scheduler handles them."""
