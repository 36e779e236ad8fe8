"""File formats: foreign bytes become plain validated records, or a named error."""
