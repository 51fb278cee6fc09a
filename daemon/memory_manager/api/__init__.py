"""The socket: REST v1 over both doors."""
