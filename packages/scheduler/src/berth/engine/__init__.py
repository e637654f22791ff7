"""The engine: runs a profile's plugins over all nodes at once, and remembers what they said."""
