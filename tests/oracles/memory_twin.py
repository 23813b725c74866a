"""The memory model once more, in plain Python: ordered dictionaries, newest last, one line at a time. Slow and obvious.

Shares no code with the package. A cache level is one OrderedDict per set from line to state ("M", "O", "E", "S").
"""

from collections import Counter, OrderedDict


class Level:
    """Sets of lines in order of use."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = [OrderedDict() for _ in range(sets)]
        self.ways = ways

    def of(self, line: int) -> OrderedDict:
        return self.sets[line % len(self.sets)]

    def insert(self, line: int, state: str) -> tuple[int, str] | None:
        """Put a line in as the newest; the oldest line if the set was full."""
        chosen = self.of(line)
        assert line not in chosen
        victim = chosen.popitem(last=False) if len(chosen) == self.ways else None
        chosen[line] = state
        return victim

    def content(self) -> dict[int, str]:
        return {line: state for chosen in self.sets for line, state in chosen.items()}


class Twin:
    """A whole machine. `counts[function, class name]`; see `touch`, `device_write`."""

    def __init__(
        self,
        cpus: int,
        l1: tuple[int, int],
        l2: tuple[int, int],
        exclusive: bool,
        dtlb: int,
        stlb: tuple[int, int] | None,
        page_lines: int,
    ) -> None:
        self.l1 = [Level(*l1) for _ in range(cpus)]
        self.l2 = [Level(*l2) for _ in range(cpus)]
        self.dtlb = [Level(1, dtlb) for _ in range(cpus)]
        self.stlb = [Level(*stlb) for _ in range(cpus)] if stlb else None
        self.exclusive, self.page_lines, self.cpus = exclusive, page_lines, cpus
        self.counts: Counter = Counter()
        self.write_backs = 0

    def translate(self, cpu: int, page: int, function: int) -> None:
        entries = self.dtlb[cpu].of(page)
        if page in entries:
            entries.move_to_end(page)
            return
        self.dtlb[cpu].insert(page, "")
        if self.stlb is not None:
            behind = self.stlb[cpu].of(page)
            if page in behind:
                behind.move_to_end(page)
                self.counts[function, "STLB hit"] += 1
                return
            self.stlb[cpu].insert(page, "")
        self.counts[function, "page walk"] += 1

    def others(self, cpu: int, line: int) -> list[OrderedDict]:
        """Every set of another CPU that holds the line."""
        return [
            level.of(line) for n in range(self.cpus) if n != cpu for level in (self.l1[n], self.l2[n]) if line in level.of(line)
        ]

    def put_l2(self, cpu: int, line: int, state: str) -> None:
        victim = self.l2[cpu].insert(line, state)
        if victim and victim[1] in "MO":
            self.write_backs += 1

    def touch(self, cpu: int, line: int, write: bool, function: int) -> None:
        self.translate(cpu, line // self.page_lines, function)
        first, second = self.l1[cpu].of(line), self.l2[cpu].of(line)
        if line in first:
            where = "L1"
            first.move_to_end(line)
        else:
            if line in second:
                where = "L2"
                state = second[line]
                if self.exclusive:
                    del second[line]
                else:
                    second.move_to_end(line)
                    state = {"M": "E", "E": "E", "O": "S", "S": "S"}[state]
            else:
                copies = self.others(cpu, line)
                dirty = any(copy[line] in "MO" for copy in copies)
                where = "transfer" if dirty else "memory"
                state = "S" if copies and not write else "E"
                for copy in copies:
                    if write:
                        del copy[line]
                    else:
                        copy[line] = {"M": "O", "O": "O", "E": "S", "S": "S"}[copy[line]]
                if not self.exclusive:
                    self.put_l2(cpu, line, state)
            victim = self.l1[cpu].insert(line, state)
            if victim:
                old, held = victim
                if self.exclusive:
                    self.put_l2(cpu, old, held)
                elif held in "MO":
                    below = self.l2[cpu].of(old)
                    if old in below:
                        below[old] = held
                    else:
                        self.put_l2(cpu, old, held)
        if write:
            if first[line] in "SO":
                self.counts[function, "upgrade"] += 1
                for copy in self.others(cpu, line):
                    del copy[line]
            first[line] = "M"
        self.counts[function, f"{where} {'store' if write else 'load'}"] += 1

    def device_write(self, line: int, function: int) -> None:
        for level in self.l1 + self.l2:
            level.of(line).pop(line, None)
        self.counts[function, "DMA line"] += 1
