"""Dynamic resource allocation: devices for pods. Start with `plugin.py`; the search itself is in `allocator.py`."""
