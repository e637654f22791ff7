"""Pods ended from outside: how many may be disrupted at a time, and who is evicted by a taint."""
