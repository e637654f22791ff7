"""Hollow nodes: Node objects without machines, with one kubelet for all of them that only pretends to run pods."""
