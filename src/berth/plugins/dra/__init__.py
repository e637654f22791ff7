"""Dynamic resource allocation: devices for pods. `plugin.py` is where to begin, `allocator.py` the heart of it."""
