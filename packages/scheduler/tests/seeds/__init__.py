"""The table of packages/scheduler/tests/seeds/README.md, and the proof that it is true."""
