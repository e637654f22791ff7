"""What people and monitoring see of a running scheduler: logs, metrics, timings, dumps."""
