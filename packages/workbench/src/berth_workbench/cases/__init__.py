"""Recorded decisions and recorded lives of the queue, made again by the core."""
