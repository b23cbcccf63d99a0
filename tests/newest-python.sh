#!/usr/bin/env bash
# Prints the path of the newest suitable Python (3.11 to 3.13) on this machine.
# pyenv's shims may refuse to run, so its versions are called by their own paths.
set -u
root=$(pyenv root 2>/dev/null || echo "${PYENV_ROOT:-$HOME/.pyenv}")
for minor in 13 12 11; do
  for candidate in "$root"/versions/3."$minor".*/bin/python3 "$(command -v "python3.$minor" 2>/dev/null)" "$(command -v python3 2>/dev/null)"; do
    [ -n "$candidate" ] && [ -x "$candidate" ] || continue
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
      echo "$candidate"
      exit 0
    fi
  done
done
exit 0
