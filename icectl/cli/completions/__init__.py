"""Completion scripts for bash, zsh and fish, from the command tree.

Commands and options are written into the scripts, so that Tab answers without a process;
only names that live in a repository or the config file are asked from `icectl __complete`,
which hands out nothing that a shell could take for more than a name.
"""
