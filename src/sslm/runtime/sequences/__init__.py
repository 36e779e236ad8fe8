"""One sequence: its tokens, its pages, its snapshots, and how it is told to choose."""
