"""How long it takes to delete a user's files: the step, boto3's collection, and rclone, all in one run.

    python -m bench.files --versions 100000

The step is the real one, with a claimed request on an emulator: fence checks and exact counts are on. Each contender is
given the same files: on a bucket on paper (bench/paper_bucket.py), where the server is never the limit, and on MinIO;
as the server answers, and with the latencies of S3 in front (bench.buckets.LIKE_S3). What each leaves is listed
afterwards by somebody else. On paper there are three unfinished uploads besides.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from bench import minio, report
from bench.buckets import LIKE_S3, Bucket, answering_like, on_paper
from bench.control import SPECS, USER, Control, control
from bench.processes import CREDENTIALS, BenchError, Ran, endpoint, run_worker
from bench.report import Table
from bench.tools import RCLONE
from handlers.core.stores import FileStore, to_json
from statemachine.deletion import DELETE_FILES
from statemachine.frame import role_of

PREFIX = f"users/{USER}/"
STEP, BOTO3, RCLONE_PURGE = "DeleteFiles", "boto3 collection", "rclone purge"
RCLONE_AT_ONCE = 64
S3_KEYS_A_SECOND = 3500
"""DELETE requests a second and prefix; each key of DeleteObjects counts (https://docs.aws.amazon.com/AmazonS3/latest/
userguide/optimizing-performance.html)."""
LATENCIES: Mapping[str, Mapping[str, float]] = {"as it answers": {}, "like S3": LIKE_S3}
CALL = 1000
"""Keys of one DeleteObjects call at most."""

Server = Callable[[], AbstractContextManager[Bucket]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One contender's run."""

    server: str
    latency: str
    contender: str
    versions: int
    seconds: float
    left: int
    """Versions, markers and uploads that a fresh listing shows afterwards."""
    cpu: float | None = None
    """Seconds of a core that the contender's own process used; None for a program that is not ours to ask."""
    peak: float | None = None
    """MiB; None for the same."""
    calls: Mapping[str, int] | None = None
    counted: Mapping[str, int] | None = None
    """What the record says was deleted."""


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """All servers, latencies and contenders; these take turns, so that a slow moment of the machine meets them all."""
    results = []
    with control() as table, _servers(given) as servers:
        for (name, server), (latency, delays) in product(servers.items(), LATENCIES.items()):
            for _, contender in product(range(given.runs), given.contenders):
                print(f"{name}, {latency}: {contender} ...", file=sys.stderr)
                with server() as bucket, answering_like(bucket, delays) as port:
                    ran = CONTENDERS[contender](table, bucket, port)
                    results.append(
                        Result(
                            server=name,
                            latency=latency,
                            contender=contender,
                            versions=given.versions,
                            left=bucket.left(),
                            **ran,
                        )
                    )
        limits = _limits(table, servers, given.versions)
    return [_speed(results), limits]


@contextmanager
def _servers(given: argparse.Namespace) -> Iterator[Mapping[str, Server]]:
    paper: dict[str, Server] = {"paper": lambda: on_paper(PREFIX, given.versions)}
    if given.without_minio:
        yield paper
        return
    with minio.seeded(PREFIX, given.versions) as data:

        @contextmanager
        def copy() -> Iterator[Bucket]:
            with minio.copied(data) as server:
                yield Bucket(name=minio.BUCKET, prefix=PREFIX, port=server.port)

        yield {**paper, "MinIO": copy}


# -- the contenders


def run_step(table: Control, bucket: Bucket, port: int) -> Mapping[str, Any]:
    """The project's step, called as Lambda calls it until it is done."""
    request = table.claimed()
    store = FileStore(name="files", bucket=bucket.name, prefix="users/{user_id}/")
    role = role_of(DELETE_FILES)
    ran = run_worker(
        SPECS[role].handler,
        table.event(request, DELETE_FILES.name),
        {**table.environment(role, file_stores=to_json((store,))), "AWS_ENDPOINT_URL_S3": endpoint(port)},
        timeout=DELETE_FILES.timeout.total_seconds(),
    )
    return {**_told(ran), "counted": dict(table.record(request).step(DELETE_FILES.name).deleted)}


def run_boto3(_: Control, bucket: Bucket, port: int) -> Mapping[str, Any]:
    """boto3's own way in one line."""
    event = {"bucket": bucket.name, "prefix": bucket.prefix}
    return _told(run_worker("bench.contenders.versions_by_collection", event, {"AWS_ENDPOINT_URL_S3": endpoint(port)}))


def run_rclone(_: Control, bucket: Bucket, port: int) -> Mapping[str, Any]:
    """`rclone purge`: of its commands the one that deletes every version; one request for each."""
    settings = {
        "RCLONE_CONFIG": "/dev/null",
        "RCLONE_CONFIG_BENCH_TYPE": "s3",
        "RCLONE_CONFIG_BENCH_PROVIDER": "AWS",
        "RCLONE_CONFIG_BENCH_FORCE_PATH_STYLE": "true",
        "RCLONE_CONFIG_BENCH_ENDPOINT": endpoint(port),
        "RCLONE_CONFIG_BENCH_ACCESS_KEY_ID": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "RCLONE_CONFIG_BENCH_REGION": CREDENTIALS["AWS_DEFAULT_REGION"],
    }
    at_once = str(RCLONE_AT_ONCE)
    target = f"bench:{bucket.name}/{bucket.prefix.rstrip('/')}"
    command = [str(RCLONE.path()), "purge", target, "--checkers", at_once, "--transfers", at_once, "--retries", "1"]
    begun = time.perf_counter()
    ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if ran.returncode:
        raise BenchError(f"rclone ended with {ran.returncode}:\n{ran.stderr[-2000:]}")
    return {"seconds": seconds}


CONTENDERS: Mapping[str, Callable[[Control, Bucket, int], Mapping[str, Any]]] = {
    STEP: run_step,
    BOTO3: run_boto3,
    RCLONE_PURGE: run_rclone,
}


def _told(ran: Ran) -> Mapping[str, Any]:
    return {"seconds": ran.seconds, "cpu": ran.cpu, "peak": ran.peak, "calls": ran.calls}


# -- the tables


def _speed(results: Sequence[Result]) -> Table:
    rows, found = [], []
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        groups.setdefault((one.server, one.latency, one.contender), []).append(one)
    for (server, latency, contender), runs in groups.items():
        seconds = statistics.median(one.seconds for one in runs)
        least = min(one.seconds for one in runs)
        against = groups.get((server, latency, BOTO3))
        ratio = statistics.median(one.seconds for one in against) / seconds if against else None
        calls = runs[0].calls or {}
        rows.append(
            (
                f"{server}, {latency}",
                contender,
                f"{seconds:.1f} ({least:.1f})",
                f"{runs[0].versions / seconds:,.0f}",
                f"{ratio:.1f}" if ratio else "-",
                f"{calls.get('ListObjectVersions', 0)} + {calls.get('DeleteObjects', 0)}" if calls else "-",
                f"{statistics.median(one.cpu or 0 for one in runs):.1f}" if runs[0].cpu else "-",
                f"{max(one.peak or 0 for one in runs):.0f}" if runs[0].peak else "-",
                str(max(one.left for one in runs)),
            )
        )
        found += [text for one in runs for text in wrong(one)]
    head = (
        "server",
        "who",
        "seconds: median (least)",
        "versions/s",
        "times as fast as boto3",
        "listings + DeleteObjects",
        "its CPU s",
        "peak MiB",
        "left",
    )
    return Table(
        name="files", head=head, rows=tuple(rows), wrong=tuple(found), facts={"runs": [asdict(one) for one in results]}
    )


def wrong(result: Result) -> list[str]:
    """What must not be: only of the step; what the others leave is shown."""
    if result.contender != STEP:
        return []
    found = []
    if result.left:
        found.append(f"{STEP} on {result.server} left {result.left} of {result.versions}")
    if (result.counted or {}).get("files") != result.versions:
        found.append(f"{STEP} on {result.server} counted {result.counted}, there were {result.versions}")
    return found


def _limits(table: Control, servers: Mapping[str, Server], versions: int) -> Table:
    """How fast the servers themselves are, and how near to a prefix's limit the step comes."""
    rows = []
    if "MinIO" in servers:
        for at_once in (1, 2, 4, 8):
            with servers["MinIO"]() as bucket:
                named = bucket.versions()
                calls = [named[start : start + CALL] for start in range(0, len(named), CALL)]
                begun = time.perf_counter()
                minio.Minio(bucket.port).delete(calls, at_once)
                seconds = time.perf_counter() - begun
                rows.append((f"MinIO's own DeleteObjects, {at_once} at once", f"{seconds:.1f}", len(named) / seconds))
    with on_paper(PREFIX, versions, per_second=S3_KEYS_A_SECOND) as bucket, answering_like(bucket, LIKE_S3) as port:
        ran = run_step(table, bucket, port)
        left = bucket.left()
    seconds = float(ran["seconds"])
    name = f"{STEP}, like S3 with SlowDown beyond {S3_KEYS_A_SECOND:,} keys/s"
    rows.append((name, f"{seconds:.1f}", versions / seconds))
    rows.append(("S3's limit for one prefix", f"{versions / S3_KEYS_A_SECOND:.1f}", float(S3_KEYS_A_SECOND)))
    return Table(
        name="files-limits",
        head=("what", "seconds", "versions/s"),
        rows=tuple((name, seconds, f"{rate:,.0f}") for name, seconds, rate in rows),
        wrong=(f"{STEP} left {left} where S3 said SlowDown",) if left else (),
        facts={"rates": {name: rate for name, _, rate in rows}},
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1, help="of each contender; the median is shown")
    parser.add_argument("--without-minio", action="store_true", help="only the bucket on paper; needs no Go then")
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
