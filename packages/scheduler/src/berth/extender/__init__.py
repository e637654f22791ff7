"""Extenders: the documents that are exchanged, when an extender is asked, and what its answers mean.

`http_extender` makes the extenders of a configuration, in the order in which they are asked;
`client` carries their calls out over HTTP, and is the only module here that does I/O.
"""
