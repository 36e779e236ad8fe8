"""Reading JSON Schema documents: bounded, exact, with every reference found."""
