"""What the process serves over HTTP: health, metrics, configuration, decisions, and the extender protocol."""
