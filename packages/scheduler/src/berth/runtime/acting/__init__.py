"""Carrying out the core's effects: bindings, status patches, and other requests to the API server."""
