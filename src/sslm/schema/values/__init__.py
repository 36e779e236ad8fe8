"""Languages of the JSON values that a schema allows."""
