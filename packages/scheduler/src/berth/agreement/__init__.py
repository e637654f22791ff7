"""Beside another scheduler: what it did with a pod is held against what this one would have done at that moment."""
