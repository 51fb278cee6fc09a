"""What may be kept and shown: sanitizer, security envelope, retrieval gate. Pure, no I/O."""
