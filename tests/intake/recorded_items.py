"""Recorded traffic cut into single spans and log records, to be sent in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collectors.otlp.request import from_json, select, split
from collectors.sink import Signal


@dataclass(frozen=True)
class Piece:
    """A request with one span, or with the log records of one moment (their order on the wire is all that tells them apart)."""

    signal: Signal
    body: bytes


def pieces(folder: Path, scenario: str) -> list[Piece]:
    """The recorded scenario in wire order."""
    found: list[Piece] = []
    for kind, signal in (("otlp", Signal.TRACES), ("logs", Signal.LOGS)):
        file = folder / f"{scenario}.{kind}.jsonl"
        lines = file.read_bytes().splitlines() if file.is_file() else []
        found += [piece for line in lines if line.strip() for piece in _cut(from_json(line, signal).body, signal)]
    return found


def _cut(body: bytes, signal: Signal) -> list[Piece]:
    items = split(body, signal).items
    moments: dict[tuple[bytes, int], list[int]] = {}
    for ordinal, item in enumerate(items):
        key = (item.span_id, ordinal) if signal is Signal.TRACES else (item.trace_id, item.start)
        moments.setdefault(key, []).append(ordinal)
    return [Piece(signal, select(body, signal, ordinals)) for ordinals in moments.values()]


def shuffled(source: Sequence[Piece], draw: random.Random, duplicated: float) -> list[list[Piece]]:
    """The pieces in any order, a share of them twice, in batches of 1 to 6 of one signal."""
    order = [*source, *(piece for piece in source if draw.random() < duplicated)]
    draw.shuffle(order)
    batches: list[list[Piece]] = []
    for piece in order:
        if batches and batches[-1][0].signal is piece.signal and len(batches[-1]) < draw.randint(1, 6):
            batches[-1].append(piece)
        else:
            batches.append([piece])
    return batches
