"""aws:s3/* and aws:resourcegroups/*"""

from __future__ import annotations

from botocore.exceptions import ClientError

from local.resources.base import (
    Json,
    Made,
    ResourceType,
    World,
    first,
    pairs,
    quietly,
    shape,
    tag_changes,
    taken,
)


def _create_bucket(world: World, inputs: Json) -> Made:
    client, name = world.client("s3"), inputs["bucket"]
    client.create_bucket(
        Bucket=name,
        CreateBucketConfiguration={"LocationConstraint": world.region},
        **taken(inputs, objectLockEnabled="ObjectLockEnabledForBucket"),
    )
    _bucket_tags(world, name, inputs)
    return Made(name, _bucket_outputs(world, name))


def _bucket_tags(world: World, name: str, inputs: Json) -> None:
    client = world.client("s3")
    if inputs.get("tags"):
        client.put_bucket_tagging(Bucket=name, Tagging={"TagSet": pairs(inputs["tags"])})
    else:
        client.delete_bucket_tagging(Bucket=name)


def _bucket_outputs(world: World, name: str) -> Json:
    return {
        "arn": f"arn:aws:s3:::{name}",
        "bucketDomainName": f"{name}.s3.amazonaws.com",
        "bucketRegionalDomainName": f"{name}.s3.{world.region}.amazonaws.com",
        "bucketRegion": world.region,
    }


def _update_bucket(world: World, name: str, _old: Json, new: Json) -> Json:
    _bucket_tags(world, name, new)
    return _bucket_outputs(world, name)


def _delete_bucket(world: World, name: str, outputs: Json) -> None:
    if outputs.get("forceDestroy"):
        quietly(_empty, absent=("NoSuchBucket",), world=world, name=name)
    quietly(world.client("s3").delete_bucket, absent=("NoSuchBucket",), Bucket=name)


def _empty(world: World, name: str) -> None:
    """From the front again after each batch: the emulator skips versions when it is paged while things go."""
    client = world.client("s3")
    while True:
        page = client.list_object_versions(Bucket=name)
        found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
        if not found:
            return
        keys = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
        answer = client.delete_objects(
            Bucket=name, Delete={"Objects": keys[:1000], "Quiet": True}, BypassGovernanceRetention=True
        )
        if answer.get("Errors"):
            raise ClientError({"Error": answer["Errors"][0]}, "DeleteObjects")


def _put_versioning(world: World, inputs: Json) -> None:
    fields = shape("versioningConfiguration", first(inputs["versioningConfiguration"]), "status", mfaDelete="MFADelete")
    world.client("s3").put_bucket_versioning(Bucket=inputs["bucket"], VersioningConfiguration=fields)


def _create_versioning(world: World, inputs: Json) -> Made:
    _put_versioning(world, inputs)
    return Made(inputs["bucket"], {})


def _update_versioning(world: World, _id: str, _old: Json, new: Json) -> Json:
    _put_versioning(world, new)
    return {}


def _delete_versioning(world: World, bucket: str, _outputs: Json) -> None:
    quietly(
        world.client("s3").put_bucket_versioning,
        absent=("NoSuchBucket",),
        Bucket=bucket,
        VersioningConfiguration={"Status": "Suspended"},
    )


def _group_query(inputs: Json) -> Json:
    return shape("resourceQuery", first(inputs["resourceQuery"]), "query", "type") | {
        "Type": first(inputs["resourceQuery"]).get("type", "TAG_FILTERS_1_0")
    }


def _create_group(world: World, inputs: Json) -> Made:
    answer = world.client("resource-groups").create_group(
        Name=inputs["name"],
        ResourceQuery=_group_query(inputs),
        Tags=inputs.get("tags") or {},
        **taken(inputs, "description"),
    )
    return Made(inputs["name"], {"arn": answer["Group"]["GroupArn"]})


def _update_group(world: World, name: str, old: Json, new: Json) -> Json:
    client = world.client("resource-groups")
    client.update_group(Group=name, Description=new.get("description", ""))
    client.update_group_query(Group=name, ResourceQuery=_group_query(new))
    arn = client.get_group(Group=name)["Group"]["GroupArn"]
    added, removed = tag_changes(old, new)
    if added:
        client.tag(Arn=arn, Tags=added)
    if removed:
        client.untag(Arn=arn, Keys=removed)
    return {"arn": arn}


def _delete_group(world: World, name: str, _outputs: Json) -> None:
    quietly(world.client("resource-groups").delete_group, absent=("NotFoundException",), Group=name)


BUCKET = ResourceType(
    pulumi_type="aws:s3/bucket:Bucket",
    honoured=frozenset({"bucket", "forceDestroy", "objectLockEnabled", "tags"}),
    replaces=frozenset({"bucket", "objectLockEnabled"}),
    named_by="bucket",
    create=_create_bucket,
    update=_update_bucket,
    delete=_delete_bucket,
)

BUCKET_VERSIONING = ResourceType(
    pulumi_type="aws:s3/bucketVersioning:BucketVersioning",
    honoured=frozenset({"bucket", "versioningConfiguration"}),
    replaces=frozenset({"bucket"}),
    create=_create_versioning,
    update=_update_versioning,
    delete=_delete_versioning,
)

RESOURCE_GROUP = ResourceType(
    pulumi_type="aws:resourcegroups/group:Group",
    honoured=frozenset({"name", "description", "resourceQuery", "tags"}),
    replaces=frozenset({"name"}),
    named_by="name",
    create=_create_group,
    update=_update_group,
    delete=_delete_group,
)

TYPES = (BUCKET, BUCKET_VERSIONING, RESOURCE_GROUP)
