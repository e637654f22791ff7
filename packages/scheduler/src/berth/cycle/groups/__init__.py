"""The scheduling cycle of a pod group: placed together, or not at all."""
