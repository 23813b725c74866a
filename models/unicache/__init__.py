"""unicache, or trash: a flow cache that keeps each flow as a leaf of an LC-trie over a hash of its key."""

from models.unicache.cache import Unicache
from models.unicache.params import UnicacheParams

__all__ = ["Unicache", "UnicacheParams"]
