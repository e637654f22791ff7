"""Kueue's decisions on a cluster in memory: who is admitted, why the others wait, and what would help them."""
