"""One module per command or group of commands; `icectl.cli.tree` says how to add one."""
