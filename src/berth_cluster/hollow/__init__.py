"""Hollow nodes: Node objects without machines, and one kubelet for all of them that only pretends to run pods."""
