"""The in-tree plugins of today's generation, one file or package for each; `registry` names them all."""
