"""Languages of byte strings, and the smallest automata that decide them."""
