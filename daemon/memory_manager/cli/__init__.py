"""The command line: thin over the daemon's socket."""
