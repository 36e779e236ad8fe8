"""Write the table of Unicode's general categories that patterns use.

    python -m tools.unicode_categories

The table is that of the Python that runs this, and is kept in the repository, so that a schema
means the same with every Python. A newer one is a change of what compiled schemas mean.
"""

import argparse
import textwrap
import unicodedata
from itertools import groupby
from pathlib import Path
from typing import Final

TARGET: Final = (
    Path(__file__).parents[1] / "src" / "sslm" / "schema" / "values" / "unicode_categories.py"
)

_HEAD: Final = '''"""General categories, written by ``python -m tools.unicode_categories``."""

from typing import Final

UNICODE_VERSION: Final = "{version}"

RUNS: Final = """\\
{runs}
"""
"""From code point 0 on: a category, and how many code points in a row have it, 1 if nothing is
said."""
'''


def module_text() -> str:
    """Return the text of the module that holds the table."""
    runs = ""
    for category, members in groupby(map(unicodedata.category, map(chr, range(0x110000)))):
        count = sum(1 for _ in members)
        runs += category + (str(count) if count > 1 else "")
    lines = "\n".join(textwrap.wrap(runs, 98))
    return _HEAD.format(version=unicodedata.unidata_version, runs=lines)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    TARGET.write_text(module_text(), encoding="utf-8")
