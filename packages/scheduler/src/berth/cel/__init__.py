"""Expressions in CEL: compiled by the CEL project's library, evaluated here, and counted as upstream counts them."""
