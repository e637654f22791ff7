"""`berth mcp`: the questions as tools of the Model Context Protocol, asked about a snapshot or a live cluster.

    arguments ─→ tools (a question asked, an answer told) ─→ server (the protocol)
    state: what is asked about, and how old it is           resources, pages: nodes, workloads, pending; long answers

Only `server` and what is below it in that picture needs the SDK, which is the extra `mcp`.
"""
