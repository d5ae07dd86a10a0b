"""Every rule that an Amazon States Language definition must keep, each with a code, a place and the mend."""

from statemachine.rules.catalogue import CATALOGUE
from statemachine.rules.check import SIZE_LIMIT, validate
from statemachine.rules.findings import Finding, Rule, Severity

__all__ = ["CATALOGUE", "SIZE_LIMIT", "Finding", "Rule", "Severity", "validate"]
