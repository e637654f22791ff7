"""The pages, in NiceGUI's elements. Data goes into text and attributes only, never into HTML or scripts."""
