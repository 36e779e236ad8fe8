"""Programs for those who build and check the package; they are not part of it."""
