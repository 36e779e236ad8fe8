"""``python -m sslm`` is the program ``sslm``."""

from sslm.cli import main

if __name__ == "__main__":
    main()
