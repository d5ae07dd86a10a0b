"""Each bench that needs the emulator, at a tiny size: what it measures works, and its results are checked."""

from __future__ import annotations

from argparse import Namespace

import pytest

from bench import files, memory, records, sweeping
from bench.paper_bucket import UPLOADS

pytestmark = pytest.mark.long


def test_files_are_deleted_and_counted_by_the_step_on_a_server_as_it_is_and_as_slow_as_s3() -> None:
    given = Namespace(versions=2_500, runs=1, without_minio=True, contenders=[files.STEP, files.BOTO3])
    speed, limits = files.measure(given)
    assert speed.facts is not None
    runs = speed.facts["runs"]
    assert (speed.wrong, limits.wrong) == ((), ())
    assert [(one["latency"], one["contender"], one["left"]) for one in runs] == [
        ("as it answers", files.STEP, 0),
        ("as it answers", files.BOTO3, UPLOADS),
        ("like S3", files.STEP, 0),
        ("like S3", files.BOTO3, UPLOADS),
    ]
    assert [one["counted"] for one in runs if one["contender"] == files.STEP] == [
        {"files": 2_500, "files.uploads": UPLOADS}
    ] * 2


def test_memory_is_measured_of_a_process_that_deleted_everything() -> None:
    (table,) = memory.measure(Namespace(versions=[2_500]))
    assert table.wrong == ()
    assert [row[3] for row in table.rows] == ["-", "0", "-"]


def test_items_are_deleted_by_both_and_the_neighbour_keeps_theirs() -> None:
    (table,) = records.measure(Namespace(items=300, runs=1))
    assert table.facts is not None
    step, writer = table.facts["runs"]
    assert table.wrong == ()
    assert (step["left"], step["kept"], step["counted"]) == (0, 10, 300)
    assert (writer["left"], writer["kept"], writer["ran"]["calls"]["BatchWriteItem"]) == (0, 10, 12)
    assert writer["units"] == 300
    assert 600 < step["units"] < 700


def test_the_sweeper_starts_everything_that_is_overdue_and_nothing_twice() -> None:
    (table,) = sweeping.measure(Namespace(overdue=30))
    assert table.facts is not None
    answers = [dict(one["ran"]["answer"]) for one in table.facts["runs"]]
    assert table.wrong == ()
    assert answers == [{}, {"dispatched": 30}, {}]
