"""The one client of the daemon's socket, used by the CLI, the tray and the stdio shim."""
