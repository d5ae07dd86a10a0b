"""The committed lists of resources and permissions, and that nothing leaves them unseen."""

from pathlib import Path

import pulumi
import pulumi_aws as aws
import pytest

from tests.infra import golden
from tests.infra.world import World, run


@pytest.fixture(scope="module")
def world() -> World:
    return golden.sample_world()


def test_resources_are_the_committed_ones(world: World) -> None:
    committed = golden.RESOURCES.read_text(encoding="utf-8")

    assert golden.vanished(committed, world) == [], "replaced or destroyed: give it an alias"
    assert golden.resource_text(world) == committed, f"look at the diff, then run: {golden.COMMAND}"


def test_every_role_may_do_exactly_what_is_committed(world: World) -> None:
    committed = golden.ROLES.read_text(encoding="utf-8")

    assert golden.role_text(world) == committed, f"look at the diff, then run: {golden.COMMAND}"


def deployed(name: str, *, physical: str = "queue", alias: str | None = None) -> World:
    aliases = [pulumi.Alias(name=alias)] if alias else None
    return run(lambda: aws.sqs.Queue(name, name=physical, opts=pulumi.ResourceOptions(aliases=aliases)))


def test_line_that_goes_without_an_alias_is_refused() -> None:
    committed = golden.resource_text(deployed("old"))

    assert golden.vanished(committed, deployed("new")) == [
        "urn:pulumi:prod::account-deletion::pulumi:pulumi:Stack$aws:sqs/queue:Queue::old queue"
    ]


def test_line_that_is_taken_over_by_an_alias_may_go() -> None:
    committed = golden.resource_text(deployed("old"))

    assert golden.vanished(committed, deployed("new", alias="old")) == []


def test_changed_physical_name_is_refused_because_it_replaces_the_resource() -> None:
    committed = golden.resource_text(deployed("old"))

    assert golden.vanished(committed, deployed("old", physical="other")) == [committed.strip()]
    assert golden.vanished(committed, deployed("old", physical="other", alias="old")) == [committed.strip()]


def test_new_line_is_not_lost() -> None:
    assert golden.vanished("", deployed("new")) == []


def test_refresh_refuses_to_forget_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "resources.txt"
    path.write_text("urn:gone name\n")
    monkeypatch.setattr(golden, "RESOURCES", path)
    monkeypatch.setattr(golden, "ROLES", tmp_path / "roles.json")

    assert golden.refresh([]) == 1
    assert capsys.readouterr().err == (
        "would be replaced or destroyed: urn:gone name\n"
        "give it an alias, or say that this is meant: python -m tests.infra.golden --destroys\n"
    )
    assert path.read_text() == "urn:gone name\n"
    assert golden.refresh(["--destroys"]) == 0
    assert path.read_text() == golden.RESOURCES.read_text()
