"""Work cut into slices: several sequences advance together, within a budget."""
