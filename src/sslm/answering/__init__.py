"""The loop that answers, and its faces: streams, batches, and answers made slice by slice."""
