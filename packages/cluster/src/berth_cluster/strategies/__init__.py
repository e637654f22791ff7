"""What is special about creating and updating each kind: defaults, admission, validation (upstream: pkg/registry)."""
