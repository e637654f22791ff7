"""The table of tests/seeds/README.md, and the proof that it is true."""
