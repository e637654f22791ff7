"""Topology-aware scheduling: which domains of a topology (blocks, racks, nodes) the pods of a workload go to."""
