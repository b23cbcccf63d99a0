"""Tables, JSON, trees and graphs as lines of text. Knows Results, never Storage.

Whatever comes from a repository is untrusted: every renderer escapes control characters
before it adds colour of its own.
"""
