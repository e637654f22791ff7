"""The in-tree plugins of today's generation, one file a plugin; `registry` names them all."""
