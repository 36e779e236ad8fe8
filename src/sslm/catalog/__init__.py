"""Models by name: those this version knows, where they are fetched, and where they are kept."""
