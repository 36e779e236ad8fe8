"""What an automaton over bytes means for a vocabulary: masks, forced tokens, distances."""
