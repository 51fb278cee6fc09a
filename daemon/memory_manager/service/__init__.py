"""Process life: single instance, discovery, hardening, logs, component start and stop."""
