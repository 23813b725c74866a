"""Made traffic against the formulas it is made by, written again here."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.access import make_log
from models.drive import drive, drive_timer
from models.flow import PROTO_TCP, make_batch
from models.interface import Context, World
from models.rcu import Rcu
from models.rt_hash import RtHash, RtHashParams
from models.rt_hash.state import RND
from models.simulated_memory import SimulatedMemory
from traces.addresses import parse_address
from traces.made import (
    Bursts,
    Collisions,
    Mixture,
    PortScan,
    RandomDestinations,
    SpoofedFlood,
    Zipf,
    destinations_from,
    places_in,
)
from traces.made.alias import SCALE, make_alias, pick, pick_many
from traces.made.places import draw_addresses
from traces.made.zipf import distinct_addresses
from traces.merge import MergedSource
from traces.routes.table import make_routes
from traces.source import Source


def rng(seed=1):
    return np.random.default_rng(seed)


def take(source, packets, room=None):
    """So many packets as (time, key, length) arrays, read in batches of `room`."""
    batch = make_batch(room or packets, source.words)
    times, keys, lengths = [], [], []
    while sum(map(len, times)) < packets:
        count = source.fill(batch)
        assert count == batch.packets[0]
        if count == 0:
            break
        times.append(batch.time[:count].copy())
        keys.append(batch.key[:count].copy())
        lengths.append(batch.length[:count].copy())
    return tuple(np.concatenate(parts)[:packets] for parts in (times, keys, lengths))


def chi_square(counts, shares):
    """How far counts lie from their shares, in standard deviations of chi-square."""
    expected = np.asarray(shares) / np.sum(shares) * np.sum(counts)
    freedom = len(counts) - 1
    return (float((((counts - expected) ** 2) / expected).sum()) - freedom) / math.sqrt(2 * freedom)


ALL = {
    "zipf": lambda: Zipf(1000, 1.1, rng=rng()),
    "zipf6": lambda: Zipf(1000, 1.1, family=6, rng=rng()),
    "scan": lambda: PortScan("10.1.0.0/30", last_port=100),
    "scan6": lambda: PortScan("2001:db8::/126", family=6, last_port=100),
    "rdos": lambda: RandomDestinations(rng=rng()),
    "rdos6": lambda: RandomDestinations(family=6, rng=rng()),
    "spoofed": lambda: SpoofedFlood(["10.0.0.0/8", "192.168.0.0/16"], rng=rng()),
    "spoofed6": lambda: SpoofedFlood(family=6, rng=rng()),
    "collisions": lambda: Collisions(20, buckets=16, rng=rng()),
    "bursts": lambda: Bursts(PortScan(), 1e-5, 1e-4),
    "random bursts": lambda: Bursts(PortScan(rate_pps=1e6), 1e-7, 1e-5, rng=rng()),
    "mixture": lambda: Mixture([(3, PortScan()), (1, Zipf(10, rng=rng()))], rng=rng(2)),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("room", [1000, 4097])
def test_the_stream_does_not_depend_on_the_room(name, room):
    packets = 9000
    whole, pieces = take(ALL[name](), packets, 9000), take(ALL[name](), packets, room)
    for one, other in zip(whole, pieces, strict=True):
        assert (one == other).all()
    assert (np.diff(whole[0]) >= 0).all()
    assert ALL[name]().describe()["source"]


@pytest.mark.parametrize("name", [name for name in ALL if "bursts" not in name])
def test_evenly_spaced_packets_of_one_length(name):
    source = ALL[name]()
    times, keys, lengths = take(source, 100)
    assert times.tolist() == [i * 2000 for i in range(100)]
    assert source.words == (10 if name.endswith("6") else 4) == keys.shape[1]
    assert (keys[:, -1] & 0xFFFF == 1).all()
    assert set(lengths.tolist()) <= {62, 74}


# -- alias tables -------------------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=40).filter(any))
def test_alias_table_holds_the_weights(weights):
    table = make_alias(np.array(weights))
    n = len(weights)
    share = [Fraction(0)] * n
    for i in range(n):
        stays = Fraction(int(table.threshold[i]), SCALE)
        share[i] += stays / n
        share[int(table.alias[i])] += (1 - stays) / n
    total = sum(map(Fraction, weights))
    heaviest = max(range(n), key=lambda i: (weights[i], -i))
    for i in range(n):
        # Each is rounded down by less than one of SCALE * n, and the heaviest takes the sum of that.
        off = n if i == heaviest else 1
        assert abs(share[i] - Fraction(weights[i]) / total) <= Fraction(off + 1, SCALE * n) + Fraction(1, 1 << 50)


def test_picks_agree_one_by_one_and_all_at_once():
    table = make_alias(np.array([1.0, 5.0, 0.5, 3.5]))
    draws = rng().integers(-(1 << 63), 1 << 63, 500)
    found = pick_many(table, draws)
    assert found.tolist() == [pick(table, draw) for draw in draws]
    assert chi_square(np.bincount(pick_many(table, rng(2).integers(-(1 << 63), 1 << 63, 100_000))), [1, 5, 0.5, 3.5]) < 5


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0, 2.0], [math.inf], [math.nan]])
def test_what_is_no_distribution(weights):
    with pytest.raises(ValueError, match=r"weights must be|1 to 67,108,864 things"):
        make_alias(np.array(weights, np.float64))


# -- zipf ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flows", "exponent"), [(1, 1.0), (50, 0.0), (200, 1.0), (1000, 1.3)])
def test_zipf_frequencies(flows, exponent):
    source = Zipf(flows, exponent, rng=rng(3))
    _, keys, _ = take(source, 40_000, 4096)
    rank = {tuple(key): k for k, key in enumerate(source.keys.tolist())}
    assert len(rank) == flows
    counts = np.bincount([rank[tuple(key)] for key in keys.tolist()], minlength=flows)
    shares = [(k + 1) ** -exponent for k in range(flows)]
    if flows > 1:
        # Rare flows are taken together, for chi-square needs a handful of packets in each class.
        head = max(2, sum(share / sum(shares) * 40_000 >= 10 for share in shares))
        classes = [*counts[:head], *([counts[head:].sum()] if head < flows else [])]
        assert abs(chi_square(np.array(classes), [*shares[:head], *([sum(shares[head:])] if head < flows else [])])) < 5
    assert not (keys[:, 2] & 0xFFFF != 80).any()
    assert (keys[:, 2] >> 16 >= 1024).all()


@pytest.mark.parametrize(("prefix", "family", "count"), [("10.1.2.0/24", 4, 256), ("10.0.0.1", 4, 1), ("0.0.0.0/0", 4, 999)])
def test_distinct_addresses_are_distinct_and_inside(prefix, family, count):
    found = distinct_addresses(prefix, family, count, rng())[:, 0].tolist()
    network, _, plen = prefix.partition("/")
    shift = 32 - int(plen or 32)
    assert len(set(found)) == count
    assert {address >> shift for address in found} == {parse_address(network) >> shift}
    six = distinct_addresses("2001:db8:1:2::/64", 6, count, rng())
    assert six[0, :3].tolist() == [0x20010DB8, 0x00010002, 0]
    assert len(set(six[:, 3].tolist())) == count


# -- scans and floods ---------------------------------------------------------------------------------------------------


def test_a_scan_tries_every_port_of_every_host():
    _, keys, _ = take(PortScan("10.1.0.4/31", first_port=5, last_port=7, sport=9), 7)
    host = parse_address("10.1.0.4")
    ports = [(9 << 16) | port for port in (5, 6, 7)]
    wanted = [(host, ports[0]), (host, ports[1]), (host, ports[2])] + [(host + 1, port) for port in ports] + [(host, ports[0])]
    assert [(int(key[1]), int(key[2])) for key in keys] == wanted
    assert (keys[:, 3] >> 24 == PROTO_TCP).all()
    _, six, _ = take(PortScan("2001:db8::/127", family=6, first_port=1, last_port=2), 4)
    assert six[:, 4:8].tolist() == [[0x20010DB8, 0, 0, 0]] * 2 + [[0x20010DB8, 0, 0, 1]] * 2
    assert (six[:, 8] & 0xFFFF).tolist() == [1, 2, 1, 2]


def test_random_destinations_are_even_over_the_prefixes():
    _, keys, _ = take(RandomDestinations(["10.0.0.0/9", "10.128.0.0/10", "10.192.0.0/10"], rng=rng(4)), 40_000)
    address = keys[:, 1].astype(np.int64)
    assert (address >> 24 == 10).all()
    for shift in (16, 8, 0):
        assert abs(chi_square(np.bincount(address >> shift & 0xFF, minlength=256), np.ones(256))) < 5
    assert len(set(keys[:, 0].tolist())) == 1


def test_all_bits_behind_a_prefix_of_ipv6_are_drawn():
    _, keys, _ = take(RandomDestinations("2001:db8::/33", family=6, rng=rng(5)), 5000)
    assert (keys[:, 4] == 0x20010DB8).all()
    assert (keys[:, 5] < 1 << 31).all()
    for word, bits in ((5, 31), (6, 32), (7, 32)):
        for bit in range(bits):
            assert abs(int((keys[:, word] >> bit & 1).sum()) - 2500) < 250
    halves = keys[:, 4:8] & 0xFFFF
    for one in range(1, 4):
        for other in range(1, one):
            assert (halves[:, one] == halves[:, other]).sum() < 5


def test_spoofed_sources_lie_in_their_prefixes():
    _, keys, _ = take(SpoofedFlood(["10.0.0.0/8", "192.168.0.0/16"], destination="192.0.2.9", rng=rng(6)), 20_000)
    source = keys[:, 0].astype(np.int64)
    ten, private = source >> 24 == 10, source >> 16 == 0xC0A8
    assert (ten | private).all()
    assert abs(int(private.sum()) - 20_000 / 257) < 50
    assert (keys[:, 1] == parse_address("192.0.2.9")).all()
    assert len(set(source[ten].tolist())) > 19_000


TABLE = make_routes([(0, 0, "a"), (10 << 24, 8, "b"), (11 << 24, 9, "b"), (0xC0A80000, 16, "c"), (0xC6336401, 32, "d")])


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ("addresses", [1 << 24, 1 << 23, 1 << 16, 1]),
        ("prefixes", [1, 1, 1, 1]),
        (np.array([9.0, 1.0, 2.0, 3.0, 4.0]), [1, 2, 3, 4]),
    ],
)
def test_destinations_from_a_table(weights, shares):
    found = draw_addresses(destinations_from(TABLE, weights), rng(7), 40_000)[:, 0].astype(np.int64)
    counts = [(found >> 24 == 10).sum(), (found >> 23 == 22).sum(), (found >> 16 == 0xC0A8).sum(), (found == 0xC6336401).sum()]
    assert sum(counts) == 40_000
    for count, share in zip(counts, shares, strict=True):
        mean = 40_000 * share / sum(shares)
        assert abs(count - mean) < 5 * math.sqrt(mean) + 1
    # The kernel draws from the same distribution.
    _, keys, _ = take(RandomDestinations(destinations_from(TABLE, weights), rng=rng(8)), 10_000)
    ten = int((keys[:, 1] >> 24 == 10).sum())
    mean = 10_000 * shares[0] / sum(shares)
    assert abs(ten - mean) < 5 * math.sqrt(mean)


# -- collisions ---------------------------------------------------------------------------------------------------------


def lookup2(a, b, c):
    """Bob Jenkins' mix of 1996, as it is published."""
    m = 0xFFFFFFFF
    for left in range(3):
        x, y, z = ((13, 8, 13), (12, 16, 5), (3, 10, 15))[left]
        a = (a - b - c & m) ^ c >> x
        b = (b - c - a & m) ^ (a << y & m)
        c = (c - a - b & m) ^ b >> z
    return c


def slot(key, secret, buckets):
    src, dst, iif = int(key[0]), int(key[1]), int(key[3]) & 0xFFFF
    golden = 0x9E3779B9
    return lookup2((dst + golden) & 0xFFFFFFFF, ((src ^ iif << 5) + golden) & 0xFFFFFFFF, secret) % buckets


@pytest.mark.parametrize(("secret", "bucket", "interface"), [(0, 0, 1), (0xDEADBEEF, 63, 2)])
def test_all_flows_fall_into_one_bucket(secret, bucket, interface):
    source = Collisions(100, buckets=64, secret=secret, bucket=bucket, interface=interface, rng=rng())
    assert len({tuple(key) for key in source.keys.tolist()}) == 100
    assert {slot(key, secret, 64) for key in source.keys} == {bucket}
    assert len({slot(key, secret ^ 1, 64) for key in source.keys}) > 30
    # The search tries pairs in order and misses none.
    wanted = [
        (s, d)
        for d, s in [(0xAC100000, 0x0A000000 + i) for i in range(source.tried)]
        if slot((s, d, 0, interface), secret, 64) == bucket
    ]
    assert [tuple(map(int, key[:2])) for key in source.keys] == wanted
    _, keys, _ = take(source, 2000)
    assert {tuple(key) for key in keys.tolist()} == {tuple(key) for key in source.keys.tolist()}


class Table:
    """An rt_hash of 64 buckets that is sent batches within a jiffy."""

    def __init__(self, secret):
        self.world = World(SimulatedMemory(), Rcu(1, 1000), np.random.default_rng(7))
        self.cache = RtHash(RtHashParams(rhash_entries=64, gc_thresh=4096, max_size=8192, secret=secret), self.world)
        self.log = make_log(1 << 16, 500)
        self.log.head[0] = 1

    def send(self, source, batches):
        batch = make_batch(500)
        context = Context(10**9, 0, self.log, self.world)
        for _ in range(batches):
            source.fill(batch)
            batch.route[:] = 0
            drive(self.cache, batch, context, lambda *_: None)
        return self.cache.counters()


def test_collisions_hurt_a_known_secret_and_no_other():
    """Of 100 flows in one chain of at most 9, nearly every packet misses; under a drawn secret all are cached after the first."""
    known = Table(0)
    counters = known.send(Collisions(100, buckets=64, rng=rng()), 8)
    assert known.cache.metrics()["linked"] <= 9
    assert counters["in_slow_tot"] > 0.85 * 4000
    drawn = Table(-1)
    attacked = drawn.send(Collisions(100, buckets=64, rng=rng()), 8)
    assert attacked["in_slow_tot"] == 100
    # The same as flows that nobody chose: as many misses, and steps along chains within a fifth.
    other = Table(-1).send(Zipf(100, 0.0, rng=rng()), 8)
    assert other["in_slow_tot"] == 100
    assert 0.8 < (attacked["in_hlist_search"] + 4000) / (other["in_hlist_search"] + 4000) < 1.25
    # Knowing the drawn secret is as good as there being none.
    told = Table(-1)
    counters = told.send(Collisions(100, buckets=64, secret=int(told.cache._table.var[RND]), rng=rng()), 8)
    assert counters["in_slow_tot"] > 0.85 * 4000


def test_a_given_secret_is_kept_and_changes_no_other_draw():
    given, drawn = Table(5), Table(-1)
    assert int(given.cache._table.var[RND]) == 5 != int(drawn.cache._table.var[RND])
    assert given.world.rng.integers(1 << 32) == drawn.world.rng.integers(1 << 32)
    drive_timer(given.cache, "rt_secret_rebuild", Context(10**9, 0, given.log, given.world), lambda *_: None)
    assert int(given.cache._table.var[RND]) == 5
    for secret in (-2, 1 << 32):
        with pytest.raises(ValueError, match="secret must be from 0"):
            replace(RtHashParams(), secret=secret)


# -- bursts and mixtures ------------------------------------------------------------------------------------------------


def test_bursts_keep_the_order_and_the_rate_within_them():
    times, keys, _ = take(Bursts(PortScan(rate_pps=1e6), 5e-6, 95e-6), 500, 37)
    assert times.tolist() == [i // 5 * 100_000 + i % 5 * 1000 for i in range(500)]
    assert (keys == take(PortScan(rate_pps=1e6), 500)[1]).all()


def test_drawn_bursts_against_a_plain_loop():
    on, off = 2e-6, 30e-6
    source = Bursts(PortScan(rate_pps=1e6), on, off, rng=rng(9))
    times, _, _ = take(source, 12_000, 300)
    draws = rng(9)
    silence, end, wanted, periods = 0, 0, [], []
    for i in range(12_000):
        while i * 1000 >= end:
            if not periods:
                ons = np.maximum(1, np.rint(draws.exponential(2000, 1024))).astype(int).tolist()
                offs = np.rint(draws.exponential(30_000, 1024)).astype(int).tolist()
                periods = list(zip(ons, offs, strict=True))
                if end == 0:
                    end = periods[0][0]
                    continue
            silence += periods.pop(0)[1]
            if not periods:
                ons = np.maximum(1, np.rint(draws.exponential(2000, 1024))).astype(int).tolist()
                offs = np.rint(draws.exponential(30_000, 1024)).astype(int).tolist()
                periods = list(zip(ons, offs, strict=True))
            end += periods[0][0]
        wanted.append(i * 1000 + silence)
    assert times.tolist() == wanted
    assert source.describe()["periods"] == "exponential"


class Few(Source):
    """So many packets, each with its number in the first word; then an end, or an error."""

    def __init__(self, packets, error=None):
        self.left, self.error, self.sent = packets, error, 0

    def fill(self, batch):
        now = min(self.left, batch.time.size)
        if now == 0 and self.error:
            raise ValueError(self.error)
        batch.time[:now] = 0
        batch.key[:now] = 0
        batch.key[:now, 0] = np.arange(self.sent, self.sent + now)
        batch.packets[0] = now
        self.left -= now
        self.sent += now
        return now

    def skipped(self):
        return {"arp": 2}


def test_a_mixture_keeps_shares_and_orders():
    parts = [(6.0, PortScan(source="192.0.2.1")), (3.0, PortScan(source="192.0.2.2")), (1.0, PortScan(source="192.0.2.3"))]
    source = Mixture(parts, rate_pps=1e6, rng=rng(10))
    times, keys, _ = take(source, 30_000, 777)
    assert times.tolist() == [i * 1000 for i in range(30_000)]
    counts = []
    for number in (1, 2, 3):
        mine = keys[keys[:, 0] == parse_address(f"192.0.2.{number}")]
        assert (mine[:, 2] & 0xFFFF).tolist() == [1 + i % 65535 for i in range(len(mine))]
        counts.append(len(mine))
    assert abs(chi_square(np.array(counts), [6, 3, 1])) < 5
    assert [part["share"] for part in source.describe()["parts"]] == [0.6, 0.3, 0.1]
    assert source.packets >= 30_000


def test_a_mixture_ends_with_the_first_of_its_sources():
    source = Mixture([(1, Few(5000)), (1, PortScan())], rng=rng(11))
    _, keys, _ = take(source, 20_000, 600)
    mine = keys[keys[:, 0] < 5000]
    assert len(mine) == 5000
    assert 9000 < len(keys) < 11_000
    assert source.fill(make_batch(10)) == 0
    assert source.skipped() == {"arp": 2}


def test_an_error_comes_after_the_packets_before_it():
    source = Mixture([(1, Few(3, "damaged")), (1, PortScan())], rng=rng(12))
    batch = make_batch(5000)
    assert 3 <= source.fill(batch) < 60
    with pytest.raises(ValueError, match="damaged"):
        source.fill(batch)


def test_an_attack_beside_traffic_at_rates_of_their_own():
    merged = MergedSource([Zipf(10, rate_pps=9e5, rng=rng()), PortScan(rate_pps=1e5)])
    _, keys, _ = take(merged, 10_000)
    assert abs(int((keys[:, 3] >> 24 == PROTO_TCP).sum()) - 1000) <= 1


# -- what cannot work ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Zipf(0, rng=rng()), "flows must be from 1"),
        (lambda: Zipf(1 << 23, rng=rng()), "flows must be from 1"),
        (lambda: Zipf(5, -1.0, rng=rng()), "exponent must be"),
        (lambda: Zipf(5, math.nan, rng=rng()), "exponent must be"),
        (lambda: Zipf(300, source="10.0.0.0/24", rng=rng()), "holds 256 addresses, 300 are needed; give a shorter prefix"),
        (lambda: Zipf(5, rate_pps=0.0, rng=rng()), "the rate must be from"),
        (lambda: Zipf(5, family=5, rng=rng()), "family 4 or 6"),
        (lambda: Zipf(5, packet_bytes=41, rng=rng()), "packet_bytes must be from 42"),
        (lambda: Zipf(5, family=6, packet_bytes=61, rng=rng()), "packet_bytes must be from 62"),
        (lambda: Zipf(5, interface=1 << 16, rng=rng()), "interface must be from 0 to 65535"),
        (lambda: Zipf(5, start_ns=-1, rng=rng()), "start_ns must be"),
        (lambda: PortScan("10.0.0.0/4"), "bits set beyond"),
        (lambda: PortScan("16.0.0.0/4"), "more than 16,777,216 hosts"),
        (lambda: PortScan(first_port=5, last_port=4), "in order, got 5 to 4"),
        (lambda: PortScan(source="10.0.0.0/8"), "a prefix where one address is needed"),
        (lambda: RandomDestinations("2001:db8::/32", rng=rng()), "is of IPv6 and the traffic of IPv4"),
        (lambda: RandomDestinations(places_in("2001:db8::/32", 6), rng=rng()), "are of IPv6 and the traffic of IPv4"),
        (lambda: RandomDestinations([], rng=rng()), "at least one"),
        (lambda: destinations_from(make_routes([(0, 0, "a")])), "no prefixes other than the default route"),
        (lambda: destinations_from(TABLE, "hosts"), "'addresses', 'prefixes' or one number"),
        (lambda: destinations_from(TABLE, np.ones(2)), "2 weights for 5 routes"),
        (lambda: Collisions(5, buckets=3, rng=rng()), "power of two"),
        (lambda: Collisions(5, buckets=4, bucket=4, rng=rng()), "bucket must be from 0 to 3"),
        (lambda: Collisions(5, secret=-1, rng=rng()), "secret must be from 0"),
        (lambda: Collisions(0, rng=rng()), "flows must be from 1"),
        (
            lambda: Collisions(100, sources="10.0.0.0/24", destinations="10.0.0.1", rng=rng()),
            "hold 256 pairs of addresses",
        ),
        (lambda: Bursts(PortScan(), 0.0, 1.0), "bursts need on_s"),
        (lambda: Mixture([], rng=rng()), "at least one"),
        (lambda: Mixture([(0.0, PortScan())], rng=rng()), "weights must be"),
        (lambda: Mixture([(1.0, PortScan()), (1.0, PortScan(family=6))], rng=rng()), "4 and 10 words"),
    ],
)
def test_what_cannot_work_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_streams_and_bursts_without_end_are_refused():
    source = PortScan(rate_pps=1e-6)
    with pytest.raises(ValueError, match="within 146 years; give a higher rate"):
        take(source, 10_000)
    with pytest.raises(ValueError, match="within 146 years; give a shorter silence"):
        take(Bursts(PortScan(rate_pps=1.0), 1e-9, 3e7), 1000)
    with pytest.raises(ValueError, match="far shorter than the gaps"):
        take(Bursts(PortScan(rate_pps=1.0), 1e-9, 1.0, rng=rng()), 1000)
