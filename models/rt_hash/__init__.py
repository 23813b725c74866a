"""The vanilla IPv4 routing cache of Linux 2.6.20: `rt_hash`, a hash table of dst entries with garbage collection."""

from models.rt_hash.cache import RtHash
from models.rt_hash.params import RtHashParams

__all__ = ["RtHash", "RtHashParams"]
