"""Opening a model: its file, its backend, and the memory that its requests may take."""
