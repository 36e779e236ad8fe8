"""The families of ``sslm.model.families`` as source files spell them."""
