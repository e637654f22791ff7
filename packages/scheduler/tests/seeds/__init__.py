"""The table of docs/seeds.md, and the proof that it is true."""
