"""The states of the list's definition that a request passes when nothing goes wrong."""

HAPPY_PATH = (
    "Claim",
    "ReadRequest",
    "Route",
    "CheckStores",
    "SuspendIdentity",
    "IsSuspendIdentityDone",
    "DeleteRecords",
    "IsDeleteRecordsDone",
    "DeleteFiles",
    "IsDeleteFilesDone",
    "DeleteIdentity",
    "IsDeleteIdentityDone",
    "VerifyErasure",
    "IsErased",
    "CompleteDeletion",
    "IsComplete",
    "Deleted",
)
