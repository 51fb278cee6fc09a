"""MCP over HTTP: the tools, and the official SDK that speaks the protocol (xmemo.md 11).

Only ``server`` imports the SDK, and it is imported at the first request: the daemon starts fast.
"""
