"""A cluster as documents: reading and writing them, without anything that schedules."""
