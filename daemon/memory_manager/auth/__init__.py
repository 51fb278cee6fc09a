"""Who is asking: instance identity, the boundary label, token shapes, the local peer."""
