"""What Kubernetes' controllers decide about workloads: pure functions on small facts, without objects, store or clock.

`berth_cluster` plays the controllers on JSON, `berth_workbench` on structs; each reads the facts from its objects, and
writes what comes out. The rules are those of kube-controller-manager, v1.36.
"""
