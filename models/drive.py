"""The loop that carries a batch through a structure: price when the log is full, grow, collect, go on.

A structure's work is resumable (models/interface.py): `forward` returns before a step that it has no room for and says what it
needs. The box, the tests and the conformance kit all answer those needs here, so that a structure meets the same caller
everywhere. A need that nothing can satisfy ends in one sentence instead of an endless loop.
"""

from collections.abc import Callable

from models.access import USED, AccessLog, begin_batch, empty, overrun
from models.flow import PacketBatch
from models.interface import NEED_COLLECT, NEED_LOG, NEED_NOTHING, NEED_POOL, Context, FlowCache

Price = Callable[[AccessLog, int, int], None]
"""price(log, first, stop): packets first .. stop-1 end in this log, and records after the last of them belong to packet `stop`,
which is still open. `end` and `miss` of those packets count from the start of this log, but a `miss` that was set while the packet
was open belongs to the log it was first seen in. The log is emptied right after the call. Called for every log of a batch that
holds a record or a call, and at its end."""

Forward = Callable[[PacketBatch, int, Context], tuple[int, int]]

PATIENCE = 64
"""Times in a row that one packet may ask for a pool or a collection without writing a record."""


def drive(structure: FlowCache, batch: PacketBatch, ctx: Context, price: Price, forward: Forward | None = None) -> None:
    """Carry a whole batch through a structure; the log is empty afterwards and says of each packet what happened to it.

    `forward` is structure.forward, or another form of it to compare with. Raises RuntimeError, one sentence, when the
    structure asks for something that does not help it.
    """
    step = structure.forward if forward is None else forward
    log, packets = ctx.log, int(batch.packets[0])
    if packets > log.end.size:
        raise ValueError(f"the log has room for batches of {log.end.size} packets, got {packets}")
    begin_batch(log, packets)
    at = first = in_vain = 0
    while True:
        before = int(log.head[USED])
        stop, need = step(batch, at, ctx)
        _check_log(structure, log)
        moved = stop > at or int(log.head[USED]) > before
        if not at <= stop <= packets or (need == NEED_NOTHING and stop < packets):
            raise RuntimeError(
                f"{_name(structure)} stopped at packet {stop} of {packets}, need {need}, when called for packet {at}"
            )
        at = stop
        if need == NEED_NOTHING:
            _hand_over(log, first, packets, price, last=True)
            return
        if need == NEED_LOG:
            if not moved and before == 0:
                raise _log_too_small(structure, log)
            _hand_over(log, first, at, price)
            first = at
        elif need == NEED_POOL:
            structure.grow()
        elif need == NEED_COLLECT:
            first = _collect(structure, ctx, first, at, price)
        else:
            raise RuntimeError(f"{_name(structure)} asks for need {need}, which does not exist")
        in_vain = 0 if moved or need == NEED_LOG else in_vain + 1
        if in_vain > PATIENCE:
            wanted = "a larger pool" if need == NEED_POOL else "a collection"
            raise RuntimeError(
                f"{_name(structure)} asks for {wanted} again and again at packet {at} of its batch and gets no further"
            )


def drive_timer(structure: FlowCache, name: str, ctx: Context, price: Price) -> None:
    """Run a periodic job to its end, pricing between its slices. The log must be empty, and is afterwards."""
    _slices(structure, ctx, price, lambda: structure.run_timer(name, ctx))


def drive_flush(structure: FlowCache, ctx: Context, price: Price) -> None:
    """Make a structure forget everything, pricing between its slices. The log must be empty, and is afterwards."""
    _slices(structure, ctx, price, lambda: structure.flush(ctx))


def drive_reclaim(structure: FlowCache, ctx: Context, price: Price) -> int:
    """Free what the RCU queue of ctx.cpu allows after a softirq round; returns how many entries were freed.

    The log must be empty, and is afterwards.
    """
    limit = ctx.world.rcu.allowance(ctx.cpu, ctx.now)
    freed = 0
    while freed < limit:
        done = structure.reclaim(limit - freed, ctx)
        _check_log(structure, ctx.log)
        if done == 0 and ctx.log.head[USED] == 0:
            raise _log_too_small(structure, ctx.log)
        freed += done
        _hand_over(ctx.log, 0, 0, price)
    return freed


def _collect(structure: FlowCache, ctx: Context, first: int, at: int, price: Price) -> int:
    """Run the collection that is due; returns the first packet that was not yet handed over."""
    while True:
        before = int(ctx.log.head[USED])
        whole = structure.collect(ctx)
        _check_log(structure, ctx.log)
        if whole:
            return first
        if before == 0 and ctx.log.head[USED] == 0:
            raise _log_too_small(structure, ctx.log)
        _hand_over(ctx.log, first, at, price)
        first = at


def _slices(structure: FlowCache, ctx: Context, price: Price, run: Callable[[], bool]) -> None:
    while True:
        whole = run()
        _check_log(structure, ctx.log)
        if not whole and ctx.log.head[USED] == 0:
            raise _log_too_small(structure, ctx.log)
        _hand_over(ctx.log, 0, 0, price)
        if whole:
            return


def _hand_over(log: AccessLog, first: int, stop: int, price: Price, last: bool = False) -> None:
    if last or stop > first or log.head[USED] > 0 or log.calls.any():
        price(log, first, stop)
        empty(log)


def _check_log(structure: FlowCache, log: AccessLog) -> None:
    wrong = overrun(log)
    if wrong:
        raise RuntimeError(f"{_name(structure)} {wrong}")


def _log_too_small(structure: FlowCache, log: AccessLog) -> RuntimeError:
    return RuntimeError(
        f"{_name(structure)} gets no further with an empty log of {log.record.size} records: "
        "a step needs more room, or the structure waits for something that never comes"
    )


def _name(structure: FlowCache) -> str:
    return structure.name or type(structure).__name__
