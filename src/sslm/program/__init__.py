"""The forward pass as data: ops over named buffers, in segments, with declared states."""
