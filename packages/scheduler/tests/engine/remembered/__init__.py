"""What is remembered, held against what is worked out afresh, on random clusters with random plugins.

`made_up` makes plugins whose answers change with everything they say they depend on, and with nothing else. `afresh`
says what should come of them, from their plain forms alone. `views` compares all that the engine says about a pod with
that, and `lives` lets things happen to a cluster and asks after each of them. Whoever changes how answers are kept
changes `views.internals` at most: everything else goes by what the engine says.
"""
