"""The ground every package stands on: errors, identifiers, times, private files, directories."""
