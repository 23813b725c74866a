"""Published figures, against numbers worked out by hand from the mail."""

import pytest

from sim.errors import UserError
from sim.published import cycles_per_packet, load_published, published_row


def test_the_six_rows_of_2007():
    rows = load_published("olsson-2007")
    assert len(rows) == 6
    row = rows["40/rt_hash/131072"]
    assert (row.flow_length, row.structure, row.buckets) == (40, "rt_hash", 131072)
    assert row.figures == {
        "entries": 1_000_000,
        "hit_kpps": 950,
        "slow_path_kpps": 29,
        "total_kpps": 979,
        "slow_share": 29 / 979,
        "total_open_kpps": 979,
    }
    assert rows["4/unicache"].buckets is None


def test_every_profile_has_26_functions():
    assert {len(row.profile) for row in load_published("olsson-2007").values()} == {26}


@pytest.mark.parametrize(
    ("key", "function", "cycles"),
    [
        ("40/rt_hash/32768", "ip_route_input", 1274),
        ("40/rt_hash/131072", "ip_route_input", 903),
        ("4/rt_hash/32768", "ip_route_input", 1650),
        ("4/rt_hash/131072", "ip_route_input", 1599),
        ("40/unicache", "tkey_equals", 363),
    ],
)
def test_cycles_per_packet_of_known_functions(key, function, cycles):
    assert round(published_row("olsson-2007", key, "here").profile[function]) == cycles


def test_one_per_cent_of_1041_kpps_is_50_cycles():
    assert cycles_per_packet(1.0, 1041) == pytest.approx(49.95, abs=0.01)


def test_unknown_tables_and_rows_are_named_with_a_suggestion():
    with pytest.raises(UserError, match=r"unknown published table 'olson-2007'; did you mean olsson-2007\?"):
        load_published("olson-2007")
    with pytest.raises(
        UserError, match=r"row x: the published table olsson-2007 has no row '40/rt_hash/32786'; did you mean 40/rt_hash/32768\?"
    ):
        published_row("olsson-2007", "40/rt_hash/32786", "row x")
