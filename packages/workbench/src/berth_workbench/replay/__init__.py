"""Recordings of a core, done again: as they were made, or with another configuration."""
