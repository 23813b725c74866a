"""IPv4 addresses and prefixes as text and as integers, with errors that say what to write instead."""

import re

_QUAD = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_PLEN = re.compile(r"\d{1,2}", re.ASCII)


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
