"""The owner's pages on the loopback port: sign-in, approvals, consent, help (desktop.md 11.7).

Plain HTML without scripts. Their cookie opens these pages only; /v1, /mcp and /ws never look at it.
"""
