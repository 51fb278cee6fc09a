"""The daemon's side of sync: asks, verifies, commits, pushes; never believes the server."""
