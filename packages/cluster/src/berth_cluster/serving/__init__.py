"""The store over HTTP: routing, verbs, watches, discovery, OpenAPI."""
