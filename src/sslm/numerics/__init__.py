"""The integer arithmetic itself: rounding, block floating point, tables, digests."""
