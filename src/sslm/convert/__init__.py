"""Source weights to artifact: the one part of the package where floats live."""
