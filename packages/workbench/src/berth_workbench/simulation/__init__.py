"""A cluster in memory that things are tried on, decided by the scheduler's own engine."""
