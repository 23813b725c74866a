"""Tables of two words a line: `PREFIX [NEXTHOP]`, and pyasn's `.dat` (prefix, tab, number of the origin AS).

`#` starts a comment, so does `;` at the beginning of a line; blank lines are skipped.
"""

from collections.abc import Iterable

from traces.routes.table import DIRECT, Collector

FORM = "PREFIX [NEXTHOP] lines"
PYASN = "pyasn .dat"
PYASN_BEGINS = "; IP-ASN-DAT"


def read_words(lines: Iterable[tuple[int, str]], out: Collector) -> None:
    """Collect the routes of (number, line). ValueError names the file, the line and the cure."""
    add = out.add_text
    for number, line in lines:
        words = line.split()
        if "#" in line:
            words = line.partition("#")[0].split()
        if not words or words[0][0] == ";":
            continue
        if len(words) > 2:
            raise ValueError(
                f"{out.where}, line {number}: {len(words)} words, expected 'PREFIX [NEXTHOP]'; remove {' '.join(words[2:])!r}"
            )
        try:
            add(words[0], words[1] if len(words) == 2 else DIRECT)
        except ValueError as error:
            raise ValueError(f"{out.where}, line {number}: {error}") from None
