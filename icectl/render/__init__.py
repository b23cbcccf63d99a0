"""Render results as tables, trees, graphs and JSON. Renderers never access storage.

All text from a repository is untrusted: control characters are escaped before colour is added.
"""
