"""The engine in a program of your own: nodes and pods in, decisions with their reasons out (`docs/embedding.md`)."""
