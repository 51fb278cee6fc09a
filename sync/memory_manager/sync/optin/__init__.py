"""Opting rows in, one by one, by the owner: the only way plaintext of a memory leaves this machine.

``egress.send_row`` is the one function that sends it. Contract: sync.md 6, redaction.md 10 and 11.
"""
