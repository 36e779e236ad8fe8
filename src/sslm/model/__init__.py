"""Model architectures: configuration, weight names and the programs built from them."""
