"""The pages, in NiceGUI's elements. Data goes into text and attributes only, never into HTML or scripts.

Everything is made of the browser's own elements (`elements`), which need no code evaluated in the browser, so that the
content security policy can forbid that; and which screen readers know.
"""
