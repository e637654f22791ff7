"""Berth: a Kubernetes scheduler in Python.

The package imports nothing heavy by itself; `docs/tour.md` follows one pod through it.
"""

__version__ = "0.1.0"
