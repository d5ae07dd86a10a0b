"""What a run of the sweeper costs, and how many requests it can start.

    python -m bench.sweeping --overdue 500

The real sweeper against the tables and the Step Functions of an emulator, whose state machine ends at once: what is
measured is the sweeper. Its start rate, 40 a second as deployed, is raised, so that it is not the limit. The overdue
requests are copies of one that the project's own function accepted.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bench import report
from bench.control import PLAN, SPECS, TABLE, Control, control
from bench.processes import Ran, run_worker
from bench.report import Table
from handlers.core.request_table import request_key
from handlers.core.states import DUE_SHARDS
from local.emulator import Emulator
from statemachine.frame import SWEEP

RATE = 100_000
"""Starts a second: no limit."""
_PUTS = 25
_ENDS_AT_ONCE = '{"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One run."""

    what: str
    overdue: int
    ran: Ran


def measure(given: argparse.Namespace) -> Sequence[Table]:
    """A run with nothing to do, one that starts everything, one over what it just started."""
    with control() as table, _machine(table.emulator) as machine:
        idle = sweep(table, machine)
        fill(table, given.overdue)
        busy = sweep(table, machine)
        after = sweep(table, machine)
    runs = (
        Sweep(what="nothing is due", overdue=0, ran=idle),
        Sweep(what=f"{given.overdue} are overdue", overdue=given.overdue, ran=busy),
        Sweep(what="right after", overdue=0, ran=after),
    )
    return [_table(runs)]


def sweep(table: Control, machine: str) -> Ran:
    """One run of the sweeper in a process of its own."""
    values = {"due_index": "due", "state_machine_arn": machine}
    variables = {**table.environment(SWEEP, **values), "START_RATE": str(RATE)}
    timeout = SPECS[SWEEP].timeout.total_seconds()
    return run_worker(SPECS[SWEEP].handler, {}, variables, timeout=timeout)


def fill(table: Control, number: int) -> None:
    """So many SCHEDULED requests whose time has come; the one that was accepted is one of them."""
    client = table.emulator.client("dynamodb")
    first = table.accepted()
    item = client.get_item(TableName=TABLE, Key=request_key(first), ConsistentRead=True)["Item"]
    copies = [_copy(item, f"del_{n:026}") for n in range(number - 1)]

    def put(start: int) -> None:
        puts = [{"PutRequest": {"Item": one}} for one in copies[start : start + _PUTS]]
        client.batch_write_item(RequestItems={TABLE: puts})

    with ThreadPoolExecutor(4) as threads:
        for _ in threads.map(put, range(0, len(copies), _PUTS)):
            pass


def _copy(item: Mapping[str, Any], request: str) -> Mapping[str, Any]:
    shard = hashlib.sha256(request.encode()).digest()[0] % DUE_SHARDS
    own = {"deletion_request_id": {"S": request}, "due_shard": {"N": str(shard)}}
    return {**item, **request_key(request), **own}


@contextmanager
def _machine(emulator: Emulator) -> Iterator[str]:
    made = emulator.client("stepfunctions").create_state_machine(
        name="deletion", definition=_ENDS_AT_ONCE, roleArn=f"arn:aws:iam::{emulator.account}:role/machine"
    )
    yield made["stateMachineArn"]


def _table(runs: Sequence[Sweep]) -> Table:
    head = ("a run", "seconds", "started a second", "Query", "GetItem", "UpdateItem", "StartExecution")
    rows, wrong = [], []
    for run in runs:
        calls = run.ran.calls
        rate = f"{run.overdue / run.ran.seconds:.0f}" if run.overdue else "-"
        counts = (str(calls.get(name, 0)) for name in head[3:])
        rows.append((run.what, f"{run.ran.seconds:.2f}", rate, *counts))
        if run.ran.answer.get("dispatched", 0) != run.overdue:
            wrong.append(f"{run.what}: the sweeper answered {dict(run.ran.answer)}")
    deployed = f"as deployed: at most {PLAN.start_rate} a second and {PLAN.sweep_limit} a run"
    rows.append((deployed, "-", str(PLAN.start_rate), "-", "-", "-", "-"))
    return Table(
        name="sweep", head=head, rows=tuple(rows), wrong=tuple(wrong), facts={"runs": [asdict(one) for one in runs]}
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overdue", type=int, default=500)


if __name__ == "__main__":
    sys.exit(report.run(__doc__ or "", _arguments, measure))
