"""`rubricd replay FILE…`: send recorded OTLP to any OTLP endpoint."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import CommandFailed, Exit, not_done, wrong_input
from monitor.commands.printing import note

if TYPE_CHECKING:
    from collectors.sink import Signal

NOTE_EVERY_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, where to, how fast, and what is made new."""
    parser.epilog = "example: rubricd replay traces.otlp.jsonl --endpoint http://localhost:4318 --shift-to-now"
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="OTLP JSON or protobuf: traces and logs")
    parser.add_argument("--endpoint", metavar="URL", required=True, help="http://host:4318 or grpc://host:4317")
    parser.add_argument(
        "--rate", metavar="SPANS_PER_S", type=float, help="spans per second (default: as fast as it goes)"
    )
    parser.add_argument("--shift-to-now", action="store_true", help="move all times so that the latest is now")
    parser.add_argument(
        "--fresh-ids",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="new trace ids (default with --shift-to-now)",
    )


def command(arguments: argparse.Namespace) -> int:
    """Send all requests in order; exit 3 when the endpoint does not take them."""
    from collectors.otlp.rewrite import Rewrite, latest_time, rewritten
    from collectors.otlp.sender import NotDelivered, sender
    from monitor.clock import SystemClock
    from monitor.commands.files import read_requests

    if arguments.rate is not None and not 0 < arguments.rate < float("inf"):
        raise wrong_input(f"--rate {arguments.rate}: spans per second are a number above 0")
    try:
        sending = sender(arguments.endpoint)
    except ValueError as error:
        raise wrong_input(f"--endpoint: {error}") from error
    requests = list(read_requests(arguments.files))
    now = SystemClock().now()
    fresh = arguments.shift_to_now if arguments.fresh_ids is None else arguments.fresh_ids
    shift = 0
    if arguments.shift_to_now and requests:
        shift = int(now * 1e9) - max(latest_time(body, signal) for body, signal in requests)
    rewrite = Rewrite(shift, f"{now!r}" if fresh else None)
    try:
        sent = refused = 0
        for body, signal in _paced(requests, arguments.rate):
            refused += sending.send(body if rewrite == Rewrite() else rewritten(body, signal, rewrite), signal)
            sent += 1
    except NotDelivered as error:
        raise not_done(f"{error}; {sent} of {len(requests)} requests were sent") from error
    finally:
        sending.close()
    note(f"sent {sent} requests to {arguments.endpoint}")
    if refused:
        raise CommandFailed(
            Exit.NO, f"{refused} spans or log records were refused (partial success): their ids or values are wrong"
        )
    return Exit.DONE


def _paced(requests: Sequence[tuple[bytes, Signal]], rate: float | None) -> Iterator[tuple[bytes, Signal]]:
    """The requests, held back to the rate, with progress on a terminal."""
    from collectors.otlp.request import split

    started = noted = time.monotonic()
    spans = 0
    for number, (body, signal) in enumerate(requests, start=1):
        yield body, signal
        spans += len(split(body, signal).items)
        if rate is not None:
            time.sleep(max(0.0, started + spans / rate - time.monotonic()))
        if sys.stderr.isatty() and time.monotonic() - noted > NOTE_EVERY_SECONDS:
            noted = time.monotonic()
            note(f"{number} of {len(requests)} requests, {spans} spans")
