"""The shape of generated IPv6 tables. No such table was at hand: the small shape is counted from updates, the large one estimated.

SMALL: the 293 IPv6 prefixes in the updates of RIPE's collector at LINX of 11 February 2007 (updates.20070211.0141); the whole table
of that time had about a thousand. LARGE: an estimate of how tables of tens of thousands of prefixes look, ruled by /32 and /48.
Both: how many hold others is a guess. The blocks are those of the registries (IANA, IPv6 unicast address assignments), with shares
by the prefixes of the same updates.
"""

from traces.routes.shape_2008 import Length

BITS_LAID = 48
"""No generated prefix is longer."""
SMALL_UP_TO = 5000

SMALL = {
    20: Length(1, 1, 0.0, {}),
    21: Length(1, 1, 0.0, {}),
    27: Length(1, 1, 0.0, {}),
    28: Length(1, 1, 0.0, {}),
    32: Length(242, 40, 0.1, {20: 1, 21: 1}),
    33: Length(2, 1, 0.0, {32: 2}),
    35: Length(26, 4, 0.0, {32: 1}),
    40: Length(2, 1, 0.0, {32: 1}),
    42: Length(1, 1, 0.0, {32: 1}),
    45: Length(1, 1, 0.0, {32: 1}),
    46: Length(1, 1, 0.0, {32: 1}),
    48: Length(14, 2, 0.1, {32: 4}),
}
LARGE = {
    20: Length(2, 1, 0.0, {}),
    22: Length(4, 1, 0.0, {}),
    24: Length(5, 1, 0.0, {}),
    28: Length(40, 6, 0.1, {24: 1}),
    29: Length(90, 15, 0.1, {24: 1}),
    32: Length(3500, 583, 0.2, {20: 20, 22: 20, 24: 20, 28: 60, 29: 200}),
    33: Length(120, 20, 0.6, {32: 110}),
    34: Length(60, 10, 0.5, {32: 50}),
    35: Length(90, 15, 0.4, {32: 60}),
    36: Length(300, 50, 0.6, {29: 20, 32: 260}),
    38: Length(90, 15, 0.4, {32: 80}),
    40: Length(500, 83, 0.5, {32: 430, 36: 30}),
    42: Length(60, 10, 0.3, {32: 55}),
    44: Length(450, 75, 0.4, {32: 300, 40: 30}),
    45: Length(40, 6, 0.3, {32: 25}),
    46: Length(160, 26, 0.4, {32: 80, 44: 20}),
    47: Length(100, 16, 0.4, {32: 55, 44: 15}),
    48: Length(4400, 733, 0.45, {29: 50, 32: 2300, 36: 120, 40: 160, 44: 220, 46: 50}),
}

BLOCK = 23
"""Length of the blocks."""
BLOCKS = {
    begin >> (BITS_LAID - BLOCK): share
    for begin, share in (
        (0x2001_0200_0000, 32.0),
        (0x2001_0400_0000, 11.0),
        (0x2001_0600_0000, 36.0),
        (0x2001_0800_0000, 21.0),
        (0x2001_0A00_0000, 19.0),
        (0x2001_0C00_0000, 17.0),
        (0x2001_0E00_0000, 13.0),
        (0x2001_1200_0000, 7.0),
        (0x2001_1400_0000, 25.0),
        (0x2001_1600_0000, 8.0),
        (0x2001_1800_0000, 3.0),
        (0x2001_1A00_0000, 12.0),
        (0x2001_4000_0000, 20.0),
        (0x2001_4200_0000, 2.0),
        (0x2001_4400_0000, 4.0),
        (0x2001_4800_0000, 13.0),
        (0x2001_4A00_0000, 5.0),
        (0x2001_4C00_0000, 16.0),
        (0x2400_0000_0000, 2.0),
        (0x2404_0000_0000, 4.0),
        (0x2600_0000_0000, 3.0),
        (0x2607_F000_0000, 6.0),
        (0x2610_0000_0000, 1.0),
        (0x2620_0000_0000, 1.0),
        (0x2800_0000_0000, 1.0),
        (0x2A00_0000_0000, 6.0),
        (0x2A01_0000_0000, 16.0),
        (0x2A01_0200_0000, 5.0),
    )
}
"""Share of each block, by number."""
for _begin in (0x2402_0000_0000, 0x2602_0000_0000, 0x2802_0000_0000, 0x2A02_0000_0000):
    BLOCKS |= {(_begin >> (BITS_LAID - BLOCK)) + k: 0.1 for k in range(64)}
