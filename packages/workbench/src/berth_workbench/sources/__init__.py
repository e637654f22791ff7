"""What is known of one cluster, for all who show it: the page, `berth top` and agents.

`source` says what can be asked, `live` asks a scheduler at work, `cluster_file` answers of a file; `model` is what is
made of the answers for people, and `recorder`, `recorded` and `levels` are the last hour.
"""
