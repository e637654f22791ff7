"""The object store, and what the API server does to objects that are written: binding, deletion, eviction, events."""
