"""What a scan comes across, file by file, until all of it can be settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from numscope import amounts
from numscope.dumps.contents import Remark
from numscope.dumps.places import Identity
from numscope.dumps.refs import Key, Problem, TensorRef, Unread, key_text
from numscope.dumps.sources import Stamp
from numscope.errors import CutShort, DumpError


@dataclass(slots=True)
class Gathered:
    """The tensors that were found so far, with what layouts made of them, and what went wrong."""

    found: list[tuple[TensorRef, Identity]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    counts: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    unread: dict[str, Unread] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0

    def add_failure(self, where: str, message: str) -> None:
        """Note that something could not be read."""
        self.problems.append(Problem(where, message))

    def add_unreadable(self, path: str, error: DumpError, stamp: Stamp | None) -> None:
        """Note that a file could not be read, and its state then: it may not be finished yet."""
        self.add_failure(path, str(error))
        if stamp is not None:
            self._add_unread(path, Unread(path, stamp, isinstance(error, CutShort)))

    def _add_unread(self, where: str, unread: Unread) -> None:
        self.unread[_one_line(where)] = unread

    def add_foreign(self, where: str, message: str) -> None:
        """Note, once for each place, what is there instead of a dump."""
        if where not in self.foreign:
            self.foreign.add(where)
            self.add_failure(where, message)

    def add_remark(self, path: str, remark: Remark) -> None:
        """Note what a file's reader remarked; remarks that only count are put together."""
        if remark.count and not remark.failure:
            self.counts.setdefault(remark.message, []).append((path, remark.count))
            return
        where = path if remark.key is None else f"{path}:{key_text(remark.key)}"
        if remark.failure and path in self.stamps:
            self._add_unread(where, Unread(path, self.stamps[path]))
        self.problems.append(Problem(where, remark.message, failure=remark.failure))

    def add_alike(self, path: str, keys: Iterable[Key]) -> None:
        """Note where tensors of a file have different keys that tables write alike."""
        counts = Counter(map(key_text, keys))
        alike = [text for text, count in counts.items() if count > 1]
        if alike:
            message = f"tables call {counts[alike[0]]} tensors of this file the same"
            more = amounts.others(len(alike) - 1, "name")
            self.problems.append(Problem(f"{path}:{alike[0]}", message + more, failure=False))

    def all_problems(self, others: list[Problem]) -> tuple[Problem, ...]:
        """Give all failures and remarks, each in one line, one for each remark that counts."""
        problems = [*self.problems, *others]
        for message, places in self.counts.items():
            total = sum(count for _, count in places)
            where, more = places[0][0], len(places) - 1
            tail = f", in this and {amounts.counted(more, 'more file')}" if more else ""
            problems.append(Problem(where, f"{message}: {total}{tail}", failure=False))
        return tuple(sorted(map(_in_one_line, problems), key=lambda problem: problem.where))


def _in_one_line(problem: Problem) -> Problem:
    """Make spaces of line breaks, which names may contain."""
    return replace(problem, where=_one_line(problem.where), message=_one_line(problem.message))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
