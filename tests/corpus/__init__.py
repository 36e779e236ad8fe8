"""What commands and calls print and return, recorded once and compared after every rebuilding."""
