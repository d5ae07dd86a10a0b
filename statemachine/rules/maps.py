"""Parallel and Map: branches, the processor's mode, and what only Distributed mode has."""

import re
from collections.abc import Mapping

from statemachine.rules.fields import Form, check_form
from statemachine.rules.findings import Place, Report
from statemachine.rules.machine import PROCESSORS, Machine, State, mode
from statemachine.rules.values import (
    choice_of,
    fill_placeholders,
    has_placeholder,
    is_integer,
    kind,
    shown,
    suggestion,
)

_DISTRIBUTED_FIELDS = (
    "ItemReader",
    "ItemBatcher",
    "ResultWriter",
    "Label",
    "ToleratedFailureCount",
    "ToleratedFailureCountPath",
    "ToleratedFailurePercentage",
    "ToleratedFailurePercentagePath",
)
_CONFIG = {"Mode": ("INLINE", "DISTRIBUTED"), "ExecutionType": ("STANDARD", "EXPRESS")}
_READER_CONFIG = {
    "InputType": ("CSV", "JSON", "JSONL", "MANIFEST", "PARQUET"),
    "CSVHeaderLocation": ("FIRST_ROW", "GIVEN"),
    "CSVDelimiter": ("COMMA", "PIPE", "SEMICOLON", "SPACE", "TAB"),
    "Transformation": ("NONE", "LOAD_AND_FLATTEN"),
    "ManifestType": ("ATHENA_DATA", "S3_INVENTORY"),
}
_WRITER_CONFIG = {"OutputType": ("JSON", "JSONL"), "Transformation": ("NONE", "COMPACT", "FLATTEN")}
_READERS = {"s3:getObject": ("Bucket", "Key"), "s3:listObjectsV2": ("Bucket",)}
_WRITERS = {"s3:putObject": ("Bucket",)}
_LABEL_LIMIT = 40
_LABEL_REFUSES = re.compile(r"[\s?*<>{}\[\]:;,\\|^~$#%&`\"\x00-\x1f\x7f-\x9f]")
_MAX_BATCH_BYTES = 262_144


def check_parallel(state: State, report: Report) -> None:
    """The branches of a Parallel state."""
    branches = state.body.get("Branches")
    if not isinstance(branches, list):
        return
    place = (*state.place, "Branches")
    if not branches:
        report.add("A207", place, "a Parallel state has at least one branch", "add a branch")
    for index, branch in enumerate(branches):
        if not isinstance(branch, Mapping):
            problem = f"a branch is a machine, not {kind(branch)}"
            report.add("A101", (*place, str(index)), problem, "write an object with StartAt and States")


def check_map(state: State, report: Report) -> None:
    """What only a Map state has."""
    for field in PROCESSORS:
        processor = state.body.get(field)
        if isinstance(processor, Mapping) and "ProcessorConfig" in processor:
            _check_config(processor["ProcessorConfig"], (*state.place, field, "ProcessorConfig"), report)
    _check_mode(state, report)
    if "ItemReader" in state.body:
        _check_reader(state, report)
    if "ResultWriter" in state.body:
        _check_writer(state, report)
    if "ItemBatcher" in state.body:
        _check_batcher(state, report)
    label = state.body.get("Label")
    if "Label" in state.body and not has_placeholder(label):
        place = (*state.place, "Label")
        if not isinstance(label, str) or not 1 <= len(label) <= _LABEL_LIMIT:
            problem = f"a Label is a string of 1 to {_LABEL_LIMIT} characters"
            report.add("A215", place, problem, "write a shorter one")
        elif _LABEL_REFUSES.search(label):
            report.add("A215", place, f"{shown(label)} has characters that a Label must not have", "write letters")


def check_labels(whole: Machine, report: Report) -> None:
    """Labels name Map runs, so each is used once in a definition."""
    seen: set[str] = set()
    for machine in whole.nested():
        for state in machine.states.values():
            label = state.body.get("Label")
            if state.type != "Map" or not isinstance(label, str) or has_placeholder(label):
                continue
            if label in seen:
                problem = f"another Map has the Label {shown(label)}"
                report.add("A215", (*state.place, "Label"), problem, "give each Map its own")
            seen.add(label)


def _check_config(config: object, place: Place, report: Report) -> None:
    if not isinstance(config, Mapping):
        report.add("A101", place, f"ProcessorConfig is an object, not {kind(config)}", 'write {"Mode": ...}')
        return
    _check_names(config, _CONFIG, place, report)
    declared = config.get("Mode")
    if declared == "DISTRIBUTED" and "ExecutionType" not in config:
        report.add("A207", place, "DISTRIBUTED needs an ExecutionType", "add STANDARD or EXPRESS")
    if declared == "INLINE" and "ExecutionType" in config:
        problem = "an INLINE Map starts no executions and has no ExecutionType"
        report.add("A213", (*place, "ExecutionType"), problem, "drop it, or write DISTRIBUTED")


def _check_names(
    config: Mapping[str, object], names: Mapping[str, tuple[str, ...]], place: Place, report: Report
) -> None:
    for field, value in config.items():
        here = (*place, field)
        if field in names and value not in names[field] and not has_placeholder(value):
            report.add("A210", here, f"{field} is not {shown(value)}", f"write {choice_of(names[field])}")
        elif field not in names and field not in _OTHER_CONFIG:
            near = suggestion(field, names.keys() | _OTHER_CONFIG)
            report.add("A204", here, f"there is no field {shown(field)}", f"write {near}" if near else "drop it")


_OTHER_CONFIG = frozenset({"CSVHeaders", "MaxItems", "MaxItemsPath", "ItemsPointer"})


def _check_mode(state: State, report: Report) -> None:
    if state.distributed or not state.machines:
        return
    declared = mode(state.machines[0].body)
    if has_placeholder(declared):
        return
    for field in _DISTRIBUTED_FIELDS:
        if field in state.body:
            code = "A213" if declared == "INLINE" else "W201"
            problem = f"{field} has effect only in Distributed mode"
            mend = 'add "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": ...} to the processor, or drop it'
            report.add(code, (*state.place, field), problem, mend)


def _check_reader(state: State, report: Report) -> None:
    # ItemsPath is not evaluated then, Items is and in vain; both are legal.
    beside = "Items" if state.jsonata else "ItemsPath"
    if beside in state.body:
        problem = f"the items come from the ItemReader, and {beside} has no effect"
        report.add("W204", (*state.place, beside), problem, "drop one of the two")
    reader, place = state.body["ItemReader"], (*state.place, "ItemReader")
    if not isinstance(reader, Mapping):
        report.add("A101", place, f"ItemReader is an object, not {kind(reader)}", 'write {"Resource": ...}')
        return
    _check_fields(state, reader, {"ReaderConfig"}, place, report)
    if "Resource" not in reader:
        report.add("A207", place, "ItemReader needs a Resource", f"add one of {choice_of(_READERS)}")
    else:
        _check_call(state, reader, _READERS, place, report)
    config = reader.get("ReaderConfig")
    typed = isinstance(config, Mapping) and "InputType" in config
    if str(reader.get("Resource")).endswith("s3:getObject") and not typed:
        report.add("A207", place, "an object can be read only if its type is known", "add InputType to ReaderConfig")
    if isinstance(config, Mapping):
        _check_reader_config(state, config, (*place, "ReaderConfig"), report)


def _check_reader_config(state: State, config: Mapping[str, object], place: Place, report: Report) -> None:
    _check_names(config, _READER_CONFIG, place, report)
    if config.get("CSVHeaderLocation") == "GIVEN" and "CSVHeaders" not in config:
        report.add("A207", place, "GIVEN headers are not given", 'add "CSVHeaders"')
    if config.get("InputType") == "CSV" and "CSVHeaderLocation" not in config:
        report.add("A207", place, "CSV needs to know where its headers are", 'add "CSVHeaderLocation"')
    if "MaxItems" in config and "MaxItemsPath" in config:
        report.add("A208", place, "MaxItems and MaxItemsPath exclude each other", "keep one of them")
    if "MaxItems" in config:
        form = Form(is_integer, "a whole number", low=0, expression=True)
        check_form("MaxItems", config["MaxItems"], form, (*place, "MaxItems"), report, jsonata=state.jsonata)
    _check_path_language(state, config, "MaxItemsPath", place, report)


def _check_path_language(state: State, config: Mapping[str, object], field: str, place: Place, report: Report) -> None:
    if state.jsonata and field in config:
        problem = f"{field} is a field of JSONPath states; this one is JSONata"
        report.add("A205", (*place, field), problem, f"write {field.removesuffix('Path')} with an expression")


def _check_fields(state: State, value: Mapping[str, object], extra: set[str], place: Place, report: Report) -> None:
    """The fields of an ItemReader or ResultWriter."""
    own, other, code = ("Arguments", "Parameters", "A205") if state.jsonata else ("Parameters", "Arguments", "A206")
    for field in value:
        if field == other:
            report.add(code, (*place, field), f"{field} is of the other query language", f"write {own}")
        elif field not in {"Resource", own} | extra:
            near = suggestion(field, {"Resource", own} | extra)
            mend = f"write {near or choice_of(extra)}"
            report.add("A204", (*place, field), f"there is no field {shown(field)}", mend)


def _check_call(
    state: State,
    value: Mapping[str, object],
    calls: Mapping[str, tuple[str, ...]],
    place: Place,
    report: Report,
) -> None:
    """Whether a reader or writer calls S3, with the parameters that it needs."""
    resource = value["Resource"]
    if isinstance(resource, str) and has_placeholder(resource):
        resource = fill_placeholders(resource, "aws")
        if resource == "aws":
            return
    action = resource.partition(":states:::")[2] if isinstance(resource, str) else ""
    if action not in calls:
        problem = f"{shown(resource)} cannot be called here"
        report.add("A214", (*place, "Resource"), problem, f"write arn:aws:states:::{' or '.join(calls)}")
        return
    given = value.get("Arguments" if state.jsonata else "Parameters", {})
    if not isinstance(given, Mapping):
        return
    for name in calls[action]:
        if name not in given and f"{name}.$" not in given:
            report.add("A905", place, f"{action} needs {name}", f'add "{name}"')


def _check_writer(state: State, report: Report) -> None:
    writer, place = state.body["ResultWriter"], (*state.place, "ResultWriter")
    if not isinstance(writer, Mapping):
        report.add("A101", place, f"ResultWriter is an object, not {kind(writer)}", 'write {"Resource": ...}')
        return
    _check_fields(state, writer, {"WriterConfig"}, place, report)
    if "Resource" in writer:
        _check_call(state, writer, _WRITERS, place, report)
    elif "WriterConfig" not in writer:
        report.add("A207", place, "ResultWriter says neither where nor how", 'add "Resource" or "WriterConfig"')
    config = writer.get("WriterConfig")
    if isinstance(config, Mapping):
        _check_names(config, _WRITER_CONFIG, (*place, "WriterConfig"), report)


def _check_batcher(state: State, report: Report) -> None:
    batcher, place = state.body["ItemBatcher"], (*state.place, "ItemBatcher")
    if not isinstance(batcher, Mapping):
        report.add("A101", place, f"ItemBatcher is an object, not {kind(batcher)}", 'write {"MaxItemsPerBatch": ...}')
        return
    limits = {"MaxItemsPerBatch": None, "MaxInputBytesPerBatch": _MAX_BATCH_BYTES}
    known = {"BatchInput", *limits, *(f"{name}Path" for name in limits)}
    for field in batcher:
        if field not in known:
            near = suggestion(field, known)
            mend = f"write {near or choice_of(known)}"
            report.add("A204", (*place, field), f"there is no field {shown(field)}", mend)
    if not (known - {"BatchInput"}) & batcher.keys():
        problem = "ItemBatcher does not say how large a batch is"
        report.add("A207", place, problem, "add MaxItemsPerBatch or MaxInputBytesPerBatch")
    for name, high in limits.items():
        if name in batcher and f"{name}Path" in batcher:
            report.add("A208", place, f"{name} and {name}Path exclude each other", "keep one of them")
        if name in batcher:
            form = Form(is_integer, "a whole number", low=1, high=high, expression=True)
            check_form(name, batcher[name], form, (*place, name), report, jsonata=state.jsonata)
        _check_path_language(state, batcher, f"{name}Path", place, report)
