"""Addresses and prefixes as text and as integers, with errors that say what to write instead.

An IPv4 address is an integer of 32 bits, an IPv6 address one of 128; in arrays the latter is four 32-bit words, high word first.
"""

import re
from collections.abc import Sequence
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

import numpy as np

from models.kernel import U32

_QUAD = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_PLEN = re.compile(r"\d{1,2}", re.ASCII)
_LENGTH = {str(plen): plen for plen in range(129)}

BITS = {4: 32, 6: 128}
"""Bits of an address by family."""


def parse_address(text: str) -> int:
    """A dotted quad as a 32-bit integer in host order. ValueError says what is wrong with it."""
    match = _QUAD.fullmatch(text)
    if match is None:
        kind = "an IPv6 address; only IPv4 is served" if ":" in text else "not an IPv4 address such as 10.1.2.3"
        raise ValueError(f"{text!r} is {kind}")
    address = 0
    for part in match.groups():
        if int(part) > 255 or (part[0] == "0" and part != "0"):
            raise ValueError(f"{text!r} is not an IPv4 address: each part is a number from 0 to 255 without leading zeros")
        address = address << 8 | int(part)
    return address


def format_address(address: int) -> str:
    """A 32-bit integer in host order as a dotted quad."""
    return ".".join(str(address >> shift & 0xFF) for shift in (24, 16, 8, 0))


def parse_prefix(text: str) -> tuple[int, int]:
    """`ADDRESS/LENGTH` as (network, length); an address alone is a host route, `default` is 0.0.0.0/0.

    ValueError for what is no prefix, and for host bits that are set, with the prefix that was probably meant.
    """
    if text == "default":
        return 0, 0
    address_text, slash, plen_text = text.partition("/")
    address = parse_address(address_text)
    if not slash:
        return address, 32
    if _PLEN.fullmatch(plen_text) is None or int(plen_text) > 32:
        raise ValueError(f"{text!r} is not a prefix: the length after / must be a number from 0 to 32")
    plen = int(plen_text)
    network = address & mask(plen)
    if network != address:
        raise ValueError(f"{text!r} has bits set beyond its first {plen}; write {format_address(network)}/{plen}")
    return network, plen


def mask(plen: int) -> int:
    """The netmask of a prefix length, as a 32-bit integer."""
    return 0xFFFFFFFF << (32 - plen) & 0xFFFFFFFF


def parse_either(text: str) -> tuple[int, int, int]:
    """A prefix of either family as (family, address, length); host bits are left as they are, an address alone is a host route.

    ValueError says what is wrong with it. A fraction of a microsecond for a good prefix: full tables are read with it.
    """
    address_text, slash, plen_text = text.partition("/")
    family = 6 if ":" in address_text else 4
    try:
        address = int.from_bytes(inet_pton(AF_INET6 if family == 6 else AF_INET, address_text), "big")
    except (OSError, ValueError):
        if family == 6:
            raise ValueError(f"{address_text!r} is not an IPv6 address such as 2001:db8::1") from None
        address = parse_address(address_text)
    if not slash:
        return family, address, BITS[family]
    plen = _LENGTH.get(plen_text, 129)
    if plen > BITS[family]:
        raise ValueError(f"{text!r} is not a prefix: the length after / must be a number from 0 to {BITS[family]}")
    return family, address, plen


def format_either(address: int, family: int) -> str:
    """An address of a family as text."""
    return inet_ntop(AF_INET, address.to_bytes(4, "big")) if family == 4 else inet_ntop(AF_INET6, address.to_bytes(16, "big"))


def to_words(addresses: Sequence[int]) -> U32:
    """128-bit integers as uint32[n, 4], high word first."""
    packed = b"".join(address.to_bytes(16, "big") for address in addresses)
    return np.frombuffer(packed, ">u4").astype(np.uint32).reshape(-1, 4)


def from_words(words: U32) -> list[int]:
    """The inverse of `to_words`."""
    packed = np.ascontiguousarray(words, ">u4").tobytes()
    return [int.from_bytes(packed[at : at + 16], "big") for at in range(0, len(packed), 16)]
