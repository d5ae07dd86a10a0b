"""Every rule that a definition can break, with its code and where it is written down.

A1 the machine, A2 states and their fields, A3 the ways between states, A4 Choice, A5 Retry and Catch,
A6 JSONPath, A7 JSONata, A8 variables and the context object, A9 tasks and what they call.
"""

from statemachine.rules.findings import Rule, Severity

_SPEC = "https://states-language.net/spec.html"
_GUIDE = "https://docs.aws.amazon.com/step-functions/latest/dg"
_STRUCTURE = f"{_SPEC}#toplevelfields"
_FIELDS = f"{_SPEC}#state-type-table"
_TRANSITIONS = f"{_SPEC}#transition"
_ERRORS = f"{_SPEC}#errors"
_HANDLING = f"{_GUIDE}/concepts-error-handling.html"
_CHOICE = f"{_SPEC}#choice-state"
_TASK = f"{_SPEC}#task-state"
_MAP = f"{_SPEC}#map-state"
_DISTRIBUTED = f"{_GUIDE}/state-map-distributed.html"
_PATHS = f"{_SPEC}#path"
_INTRINSICS = f"{_GUIDE}/intrinsic-functions.html"
_PAYLOAD = f"{_SPEC}#payload-template"
_TRANSFORM = f"{_GUIDE}/transforming-data.html"
_VARIABLES = f"{_GUIDE}/workflow-variables.html"
_CONTEXT = f"{_GUIDE}/input-output-contextobject.html"
_QUOTAS = f"{_GUIDE}/service-quotas.html"
_RESOURCE = f"{_GUIDE}/connect-to-resource.html"
_OPTIMIZED = f"{_GUIDE}/integrate-optimized.html"
_SDK = f"{_GUIDE}/supported-services-awssdk.html"
_WORKFLOW_TYPES = f"{_GUIDE}/choosing-workflow-type.html"
_ITEMS = f"{_GUIDE}/input-output-itemspath.html"
_CALLBACK = f"{_RESOURCE}#connect-wait-token"

_ERROR_RULES = (
    ("A101", "the definition, a state or another part is not of the JSON type it must be", _STRUCTURE),
    ("A102", "States or StartAt is missing", _STRUCTURE),
    ("A103", "a machine has no states", _STRUCTURE),
    ("A104", "a field that machines do not have", _STRUCTURE),
    ("A105", "Version is not 1.0", _STRUCTURE),
    ("A106", "QueryLanguage is neither JSONPath nor JSONata", f"{_SPEC}#query-language"),
    ("A107", "a JSONata machine has a JSONPath state", f"{_SPEC}#query-language"),
    ("A108", "a branch or processor declares a QueryLanguage", f"{_SPEC}#query-language"),
    ("A109", "the definition is larger than 1 MiB", _QUOTAS),
    ("A110", "the definition is nested too deeply to be read", _QUOTAS),
    ("A201", "a state's name is empty or longer than 80 characters", f"{_SPEC}#states-fields"),
    ("A202", "two states of the whole definition have one name", f"{_SPEC}#states-fields"),
    ("A203", "Type is missing or names no state type", _FIELDS),
    ("A204", "a field that states of this type do not have", _FIELDS),
    ("A205", "a JSONPath field in a JSONata state", f"{_SPEC}#query-language"),
    ("A206", "a JSONata field in a JSONPath state", f"{_SPEC}#query-language"),
    ("A207", "a field that the state needs is missing", _FIELDS),
    ("A208", "two fields that exclude each other", _FIELDS),
    ("A209", "a number is outside of its range", _FIELDS),
    ("A210", "a value is none of those allowed", _FIELDS),
    ("A211", "a timestamp is not RFC 3339", f"{_SPEC}#timestamps"),
    ("A212", "HeartbeatSeconds is not shorter than TimeoutSeconds", _TASK),
    ("A213", "a field of Distributed mode in an INLINE Map", _DISTRIBUTED),
    ("A214", "ItemReader or ResultWriter calls what it cannot call", _DISTRIBUTED),
    ("A215", "a Map's Label is too long, has characters it must not have, or is used twice", _DISTRIBUTED),
    ("A216", "an EXPRESS child of a Distributed Map does what only STANDARD ones can", _WORKFLOW_TYPES),
    ("A301", "StartAt names no state of its machine", _STRUCTURE),
    ("A302", "Next or Default names no state of its machine", _TRANSITIONS),
    ("A303", "a Catch goes to no state of its machine", _TRANSITIONS),
    ("A304", "neither Next nor End", _TRANSITIONS),
    ("A305", "both Next and End", _TRANSITIONS),
    ("A306", "no way leads to the state", _TRANSITIONS),
    ("A307", "no terminal state can be reached", f"{_SPEC}#terminal-state"),
    ("A401", "a Choice has no rules", _CHOICE),
    ("A402", "a choice rule tests nothing", _CHOICE),
    ("A403", "a choice rule has more than one test", _CHOICE),
    ("A404", "an unknown field or comparison in a choice rule", _CHOICE),
    ("A405", "a comparison's operand is of the wrong type", _CHOICE),
    ("A406", "a comparison has no Variable", _CHOICE),
    ("A407", "a choice rule has no Next", _CHOICE),
    ("A408", "Next or Assign within a nested choice rule", _CHOICE),
    ("A409", "a Condition that is not one JSONata expression", _CHOICE),
    ("A410", "a Condition that is always something else than true or false", _TRANSFORM),
    ("A501", "a retrier or catcher names no errors", _ERRORS),
    ("A502", "States.ALL beside other errors", _ERRORS),
    ("A503", "States.ALL before the last retrier or catcher", _ERRORS),
    ("A504", "an error name that begins with States. and is none of the language's", _ERRORS),
    ("A505", "an unknown field in a retrier or catcher", _ERRORS),
    ("A506", "MaxDelaySeconds is not longer than IntervalSeconds", _ERRORS),
    ("A507", "Retry or Catch is not an array of objects", _ERRORS),
    ("A601", "a path does not parse", _PATHS),
    ("A602", "a path where only a reference path may stand", f"{_SPEC}#ref-paths"),
    ("A603", "a key that ends in .$ holds neither path nor intrinsic function", _PAYLOAD),
    ("A604", "an intrinsic function does not parse", _INTRINSICS),
    ("A605", "an intrinsic function that does not exist", _INTRINSICS),
    ("A606", "an intrinsic function with the wrong number or kind of arguments", _INTRINSICS),
    ("A607", "a field is given both as a value and as a path", _PAYLOAD),
    ("A608", "ResultPath points into the context object or a variable", f"{_SPEC}#filters"),
    ("A701", "JSONata that does not parse", _TRANSFORM),
    ("A702", "an expression is opened and not closed, or closed and not opened", _TRANSFORM),
    ("A703", "$states.result where no result exists", _TRANSFORM),
    ("A704", "$states.errorOutput outside of a catcher", _TRANSFORM),
    ("A705", "a field that $states does not have", _TRANSFORM),
    ("A706", "a function that Step Functions does not have", _TRANSFORM),
    ("A707", "a function with too many or too few arguments", _TRANSFORM),
    ("A708", "an expression reads from the top level, where nothing is", _TRANSFORM),
    ("A709", "an operator that is newer than the service's JSONata", _TRANSFORM),
    ("A710", "arithmetic with a text", _TRANSFORM),
    ("A801", "a variable that is assigned nowhere before it is read", _VARIABLES),
    ("A802", "an assignment to a reserved name", _VARIABLES),
    ("A803", "a name that is none for a variable", _VARIABLES),
    ("A804", "a branch assigns a variable of the machine around it", _VARIABLES),
    ("A805", "the context object has no such field", _CONTEXT),
    ("A806", "Map.Item outside of a Map", _CONTEXT),
    ("A807", "Task.Token in a state that has none", _CONTEXT),
    ("A808", "a Distributed Map's states read a variable from outside", _VARIABLES),
    ("A901", "a Resource that is no ARN of something a Task can call", _RESOURCE),
    ("A902", "an integration with a service that has none", _OPTIMIZED),
    ("A903", "an action that the integration does not have", _OPTIMIZED),
    ("A904", "a pattern that the integration does not support", _OPTIMIZED),
    ("A905", "a parameter that the call needs is missing", _OPTIMIZED),
    ("A906", "a parameter that the call does not have", _OPTIMIZED),
    ("A907", ".waitForTaskToken, and the token is not passed on", _CALLBACK),
    ("A908", "a parameter's value is one that the call refuses", _OPTIMIZED),
    ("A909", "parameters of which the call takes only one", _OPTIMIZED),
)

_WARNING_RULES = (
    ("W201", "Distributed mode's field in a Map that does not say DISTRIBUTED", _DISTRIBUTED),
    ("W203", "Credentials name no role", _TASK),
    ("W204", "Items or ItemsPath beside an ItemReader, which is read instead", _ITEMS),
    ("W202", "a Fail state raises an error of the language's own", _ERRORS),
    ("W302", "a Wait as long as the whole machine may run", _STRUCTURE),
    ("W301", "states that are never left", f"{_SPEC}#terminal-state"),
    ("W401", "a Choice without Default fails where no rule matches", _CHOICE),
    ("W403", "a choice rule that never matches: one before it always does", _CHOICE),
    ("W402", "a comparison with a path that is taken literally", _CHOICE),
    ("W501", "the same error twice: the first wins", _ERRORS),
    ("W502", "an error that never matches there", _HANDLING),
    ("W503", "an error that an earlier States.TaskFailed takes", _HANDLING),
    ("W504", "an error name that the integration spells otherwise", _HANDLING),
    ("W505", "MaxDelaySeconds is longer than any delay", _ERRORS),
    ("W601", "a path or intrinsic function that is taken literally", _PAYLOAD),
    ("W602", "a JSONata expression in a JSONPath state is taken literally", _TRANSFORM),
    ("W701", "JSONPath in a JSONata state is taken literally", _TRANSFORM),
    ("W702", "an expression with something outside of its {% %} is taken literally", _TRANSFORM),
)

CATALOGUE: dict[str, Rule] = {
    code: Rule(code=code, severity=severity, title=title, source=source)
    for severity, rows in ((Severity.ERROR, _ERROR_RULES), (Severity.WARNING, _WARNING_RULES))
    for code, title, source in rows
}
"""Code to rule. The documentation's table is generated from it."""
