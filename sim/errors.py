"""What a user did wrong, said in one sentence.

`UserError` is raised where input is read. The command line turns it, and every ValueError, OSError or MemoryError that reaches
it, into one line on stderr and exit status 2; whatever else arrives there is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A sentence that names the value, the place and the cure."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest known one, or all of them."""
    names = list(known)
    close = get_close_matches(name.lower(), names, 1, cutoff=0.55)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(names)}" if names else "none is known"


def sentence(error: BaseException) -> str:
    """One line that tells a user what an exception means."""
    if isinstance(error, MemoryError):
        return f"not enough memory{f' ({error})' if str(error) else ''}; run fewer rows at a time (--jobs 1) or fewer flows"
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        cure = {
            errno.ENOSPC: "; make room or choose another place with --out",
            errno.EACCES: "; choose a place that you may use, or change its permissions",
            errno.EISDIR: "; name a file inside it",
        }.get(error.errno or 0, "")
        return f"{place}{error.strerror}{cure}"
    text = " ".join(str(error).split())
    return text or type(error).__name__
