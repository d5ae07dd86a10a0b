"""The services held in memory (tests/fakes) answer as the emulator does, also where moto is wrong."""

import pytest

from local.emulator import Emulator
from tests.fakes import scripts


@pytest.mark.parametrize("script", scripts.S3_SCRIPTS, ids=lambda script: script.__name__)
def test_buckets_in_memory_answer_as_those_of_the_emulator(emulator: Emulator, script: scripts.Script) -> None:
    other = emulator.client("s3")
    scripts.make_buckets(other)

    ours = scripts.play(script, scripts.buckets_in_memory(), "emulator")
    theirs = scripts.play(script, other, "emulator")

    assert ours == theirs


@pytest.mark.parametrize("script", scripts.DYNAMODB_SCRIPTS, ids=lambda script: script.__name__)
def test_tables_in_memory_answer_as_those_of_the_emulator(emulator: Emulator, script: scripts.Script) -> None:
    other = emulator.client("dynamodb")
    scripts.make_tables(other)

    ours = scripts.play(script, scripts.tables_in_memory(), "emulator")
    theirs = scripts.play(script, other, "emulator")

    assert ours == theirs
