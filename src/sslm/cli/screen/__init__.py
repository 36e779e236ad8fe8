"""What commands print, and how far they are."""
