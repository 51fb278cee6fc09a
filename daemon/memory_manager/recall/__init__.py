"""How memories are found: embedder worker, vector and full-text index, ranking, context packs."""
