"""What comes in by itself or in bulk: importers and exporters."""
