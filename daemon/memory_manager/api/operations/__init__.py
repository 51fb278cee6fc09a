"""What an agent can ask for, without HTTP: REST routes and MCP tools call the same functions.

An operation takes the daemon, the Call of the request and its arguments as a JSON object, and
answers an Answer; it raises a MemlocketError. Writes go through ``written`` (xmemo.md 4.11).
"""
