"""Records of requests; see docs/format.md, 15."""
