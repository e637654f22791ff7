"""Pictures of results, for `--plot`: matplotlib draws them, one module for each kind of result."""
