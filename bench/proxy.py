"""A proxy that makes a server on this machine as slow to answer as S3 is.

    python -m bench.proxy --to 9000 --delay ListObjectVersions=0.1 --delay DeleteObjects=0.3

Each connection is handled by itself, so calls in flight wait side by side. A request is kept back as long as its
operation asks for, then goes to the server; answers pass at once. Prints its port as the first line.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from bench.wire import HOST, read_head, serve_until_killed

CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Where to, and how slowly."""

    port: int
    """Of the server behind it."""
    delays: Mapping[str, float]
    """Operation -> seconds before it reaches the server."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, over one connection of its own."""
        answers, requests = await asyncio.open_connection(HOST, self.port)
        copying = asyncio.create_task(_copy(answers, writer))
        try:
            while head := await read_head(reader):
                await asyncio.sleep(self.delays.get(head.operation, 0))
                requests.write(head.raw)
                await _copy_exactly(reader, requests, head.length)
        except ConnectionError:
            copying.cancel()
        finally:
            requests.close()
            with suppress(asyncio.CancelledError):
                await copying
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _copy_exactly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    while length:
        data = await reader.read(min(length, CHUNK))
        if not data:
            raise ConnectionResetError
        length -= len(data)
        writer.write(data)
    await writer.drain()


def main() -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=int, required=True, help="port of the server")
    parser.add_argument("--delay", action="append", default=[], help="OPERATION=SECONDS, any number of times")
    given = parser.parse_args()
    delays = {name: float(seconds) for name, _, seconds in (text.partition("=") for text in given.delay)}
    asyncio.run(serve_until_killed(Proxy(port=given.to, delays=delays).serve))
    return 0


if __name__ == "__main__":
    sys.exit(main())
