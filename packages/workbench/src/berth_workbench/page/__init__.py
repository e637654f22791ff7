"""The page of `berth ui` and the terminal of `berth top`: both show what a `Source` tells, and compute nothing.

`server` serves the page: NiceGUI renders it (`views/`), and everything goes through `guard` first. `terminal` is the
Textual application.
"""
