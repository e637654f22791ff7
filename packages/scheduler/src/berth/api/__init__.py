"""Kubernetes API objects as the scheduler reads them: frozen structs, quantities, selectors, taints, codec.

Everything here is pure: no I/O, no clock, no state. Every other package may import this one.
"""
