"""Commands, thin over the socket."""
