"""One module per command or group of commands; `icectl.cli.app` lists them."""
