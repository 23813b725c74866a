from collections import Counter
from fractions import Fraction
from math import exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.flow import END_MARK, make_batch
from models.kernel import compiled
from traces.pktgen import DRAWS, Pktgen, addresses_at, allowed_ranges, destination

FULL = compiled()


def generator(seed=1, **parameters):
    return Pktgen(**{"flows": 16, "flow_length": 3, "rate_pps": 1e6, "rng": np.random.default_rng(seed), **parameters})


def stream(source, packets, room=4096):
    """Time, key and flags of the next packets, read with batches of `room`."""
    times, keys, flags = [], [], []
    while packets > 0:
        batch = make_batch(min(room, packets))
        packets -= source.fill(batch)
        times.append(batch.time)
        keys.append(batch.key)
        flags.append(batch.flags)
    return np.concatenate(times), np.concatenate(keys), np.concatenate(flags)


def replay(draws, flows, flow_length, destination_of):
    """The generator's loop as the kernel writes it, on given draws: the oracle. Yields (flow, daddr, count before the packet)."""
    count, cur_daddr = [0] * flows, [0] * flows
    for draw in draws:
        f = (draw >> 32) % flows
        if count[f] > flow_length:
            count[f] = 0
        if count[f] == 0:
            cur_daddr[f] = destination_of(draw & 0xFFFFFFFF)
        yield f, cur_daddr[f], count[f]
        count[f] += 1


@given(st.integers(1, 40), st.integers(0, 6), st.integers(0, 99))
def test_agrees_with_the_loop_of_the_kernel(flows, flow_length, seed):
    packets = 300
    source = generator(seed, flows=flows, flow_length=flow_length, start="synchronous", end_mark=True)
    _, keys, flags = stream(source, packets, 64)
    draws = [int(d) & (1 << 64) - 1 for d in np.random.default_rng(seed).integers(-(1 << 63), 1 << 63, DRAWS)[:packets]]
    expected = list(replay(draws, flows, flow_length, lambda draw: (10 << 24) + (draw * ((1 << 24) - 1) >> 32)))
    assert keys[:, 1].tolist() == [daddr for _, daddr, _ in expected]
    assert flags.tolist() == [END_MARK if count == flow_length else 0 for _, _, count in expected]
    assert source.renewals == sum(count == 0 for _, _, count in expected)
    assert source.packets == packets


@pytest.mark.parametrize("start", ["staggered", "synchronous"])
@pytest.mark.parametrize("flow_length", [0, 1, 4])
def test_a_flow_is_flow_length_plus_one_packets(start, flow_length):
    source = generator(flows=8, flow_length=flow_length, start=start, end_mark=True)
    _, keys, flags = stream(source, 2000)
    lives = Counter()
    ended = []
    for daddr, flag in zip(keys[:, 1].tolist(), flags.tolist(), strict=True):
        lives[daddr] += 1
        if flag == END_MARK:
            ended.append((daddr, lives.pop(daddr)))
    # A staggered start puts the first life of each flow somewhere in its middle.
    assert sum(packets != flow_length + 1 for _, packets in ended) <= (8 if start == "staggered" else 0)
    assert all(packets <= flow_length + 1 for _, packets in ended)
    assert len(ended) > 1000 / (flow_length + 1)


def test_no_end_mark_unless_asked_for():
    assert not stream(generator(), 500)[2].any()


@pytest.mark.parametrize("flow_length", [4, 40])
def test_staggered_renewal_share_is_steady_from_the_start(flow_length):
    flows = 65536 if FULL else 2000
    source = generator(flows=flows, flow_length=flow_length)
    part = flows // 4
    for _ in range(4):
        before = source.renewals
        stream(source, part)
        share = (source.renewals - before) / part
        # Five standard deviations of a binomial share.
        expected = 1 / (flow_length + 1)
        assert abs(share - expected) < 5 * (expected / part) ** 0.5


def test_flows_are_chosen_evenly():
    packets, flows = (400_000 if FULL else 8000), 64
    _, keys, _ = stream(generator(flows=flows, flow_length=10**9, start="synchronous"), packets)
    counts = np.array(list(Counter(keys[:, 1].tolist()).values()))
    assert counts.size == flows
    chi_square = ((counts - packets / flows) ** 2 / (packets / flows)).sum()
    assert abs(chi_square - (flows - 1)) < 5 * (2 * (flows - 1)) ** 0.5


@pytest.mark.parametrize("start", ["staggered", "synchronous"])
@pytest.mark.parametrize("rooms", [(64, 4096), (1, 300)])
def test_stream_does_not_depend_on_the_batches(start, rooms):
    packets = DRAWS + 500
    one, other = (stream(generator(flows=100, start=start, end_mark=True), packets, room) for room in rooms)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_seeds_differ_and_repeat():
    a, b, c = (stream(generator(seed), 100)[1].tolist() for seed in (1, 1, 2))
    assert a == b != c


@pytest.mark.parametrize("rate", [1e9, 1.488e6, 1041e3 / 2, 333_333.333333, 7.0, 0.25])
def test_times_are_exact(rate):
    start = 5 * 10**9
    source = generator(rate_pps=rate, start_ns=start)
    times, _, _ = stream(source, 5000, 64)
    exact = Fraction(round(rate * 10**6), 10**6)
    assert times.tolist() == [start + k * 10**9 // exact for k in range(5000)]


def test_header_fields():
    batch = make_batch(10)
    generator(source="192.168.7.9", interface=3, packet_bytes=120).fill(batch)
    assert set(map(tuple, batch.key[:, [0, 2, 3]].tolist())) == {(0xC0A80709, 9 << 16 | 9, 17 << 24 | 3)}
    assert set(batch.length.tolist()) == {120}
    assert set(batch.route.tolist()) == {-1}, "the route is not the generator's to give"


@pytest.mark.parametrize("start", ["staggered", "synchronous"])
def test_destinations_stay_in_the_range_and_reach_all_of_it(start):
    _, keys, _ = stream(generator(destination="10.1.2.0/28", flow_length=0, start=start), 2000)
    # The generator's dst_max, the last address, is exclusive.
    assert set(keys[:, 1].tolist()) == {0x0A010200 + i for i in range(15)}


def test_a_host_route_is_a_constant_destination():
    assert set(stream(generator(destination="10.1.2.3/32"), 50)[1][:, 1].tolist()) == {0x0A010203}


def test_invalid_destinations_are_never_sent_to():
    _, keys, _ = stream(generator(destination="0.0.0.0/0", flow_length=0), 20_000 if FULL else 4000)
    first = keys[:, 1].astype(np.int64) >> 24
    assert not np.isin(first, [0, 127]).any()
    assert first.max() < 224
    # What is left is drawn evenly: 222 of 256 networks, a quarter of them below 57.
    assert abs((first < 57).mean() - 56 / 222) < 0.04


def test_a_draw_falls_evenly_on_the_ranges_that_are_left():
    allowed = np.array([[10, 0], [20, 3], [30, 5]])
    reached = [10, 11, 12, 20, 21, 30, 31, 32, 33, 34]
    assert addresses_at(allowed, np.arange(10)).tolist() == reached
    for rank, address in enumerate(reached):
        first, last = -(-rank * (1 << 32) // 10), -(-(rank + 1) * (1 << 32) // 10) - 1
        assert destination(allowed, 10, first) == destination(allowed, 10, last) == address


def test_flows_of_a_staggered_start_have_destinations_of_their_own():
    _, keys, _ = stream(generator(flows=200, flow_length=10**6), 2000)
    assert len(set(keys[:, 1].tolist())) == 200


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
def test_allowed_ranges_leave_out_exactly_the_invalid(low, high):
    low, high = min(low, high), max(low, high)
    ranges = allowed_ranges(low, high)

    def valid(address):
        return low <= address < high and address >> 24 not in (0, 127) and address >> 29 != 7

    edges = [low, high - 1, high, 0, (1 << 24) - 1, 1 << 24, 0x7EFFFFFF, 0x7F000000, 0x7FFFFFFF, 0x80000000, 0xDFFFFFFF, 0xE0000000]
    for address in edges:
        assert any(first <= address < first + size for first, size in ranges) == valid(address)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"flows": 0}, "flows must be from 1 to 67108864, got 0"),
        ({"flow_length": -1}, "flow_length must be from 0 to 1073741823, got -1"),
        ({"rate_pps": 0}, "the rate must be above 0 and at most 1e9 packets per second, got 0"),
        ({"rate_pps": float("nan")}, "the rate must be above 0 and at most 1e9 packets per second, got nan"),
        ({"start": "random"}, "start must be 'staggered' or 'synchronous', got 'random'"),
        ({"interface": -1}, "interface must be from 0 to 65535, got -1"),
        ({"packet_bytes": 41}, "packet_bytes must be from 42"),
        ({"source": "10.0.0"}, "'10.0.0' is not an IPv4 address such as 10.1.2.3"),
        ({"destination": "10.1.0.0/8"}, "'10.1.0.0/8' has bits set beyond its first 8; write 10.0.0.0/8"),
        ({"destination": "10.0.0.0/33"}, "the length after / must be a number from 0 to 32"),
        ({"destination": "2001:db8::/32"}, "'2001:db8::' is an IPv6 address; only IPv4 is served"),
        ({"destination": "224.0.0.0/4"}, "no packet can be sent to 224.0.0.0/4: it lies within"),
        ({"destination": "127.0.0.1/32"}, "no packet can be sent to 127.0.0.1/32"),
    ],
)
def test_impossible_parameters(parameters, sentence):
    with pytest.raises(ValueError) as error:
        generator(**parameters)
    assert sentence in str(error.value)


def test_description_holds_the_parameters():
    described = generator(destination="10.0.0.0/9").describe()
    assert described["source"] == "pktgen"
    assert described["destination"] == "10.0.0.0/9"
    assert generator().skipped() == {}


def test_batch_of_another_width():
    with pytest.raises(ValueError, match="Pktgen writes flow keys of 4 words, the batch has 10"):
        generator().fill(make_batch(4, 10))


@pytest.mark.slow
def test_renewal_oscillation_of_a_synchronous_start():
    """The new-flow rate over its asymptote, flow length 40, 65,536 flows a sender, 1041 kpps by two senders.

    Packets of a flow are Poisson, and every 41st begins a new one: the ratio at t is 41 * sum over k of
    Poisson(41 k; rate t / flows).
    `cited` are the ratios of another model at these seconds, read up to 0.2 s later.
    """
    cited = {5: 2.58, 7: 0.24, 10: 1.79, 13: 0.43, 15: 1.43, 18: 0.63, 20: 1.23, 23: 0.77, 26: 1.17, 28: 0.87, 50: 1.0}
    rate, flows, life = 1_041_000 / 2, 65536, 41
    half = 0.1  # seconds on each side of the instant
    window = round(2 * half * rate)
    source = generator(flows=flows, flow_length=life - 1, rate_pps=rate, start="synchronous")
    sent = 0

    def expected(second):
        mean = rate * second / flows
        return life * sum(exp(-mean + life * k * log(mean) - lgamma(life * k + 1)) for k in range(30))

    for second, other in cited.items():
        start = round((second - half) * rate)
        stream(source, start - sent)
        before = source.renewals
        stream(source, window)
        sent = start + window
        ratio = (source.renewals - before) / window * life
        exact = sum(expected(second + half * step / 5) for step in range(-5, 6)) / 11
        assert abs(ratio - exact) < 4 * (exact * life / window) ** 0.5, second
        assert abs(ratio - other) < 0.15, second
