"""The scheduling queue: which pod comes next, which must wait, and what wakes it."""
