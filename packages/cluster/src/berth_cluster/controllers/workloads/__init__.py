"""The controllers that make pods: Deployments, ReplicaSets, StatefulSets, Jobs."""
