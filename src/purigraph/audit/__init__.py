"""Purifications that can be accounted for: evidence, limits to what is cut, changes since a snapshot, receipts."""

from purigraph.audit.answers import Answers
from purigraph.audit.auditing import Audit, Trusted, audit
from purigraph.audit.changes import Changes
from purigraph.audit.file_audit import FileAudit, Request, audit_file
from purigraph.audit.receipt import Verification, make_receipt, read_receipt, verify

__all__ = [
    "Answers",
    "Audit",
    "Changes",
    "FileAudit",
    "Request",
    "Trusted",
    "Verification",
    "audit",
    "audit_file",
    "make_receipt",
    "read_receipt",
    "verify",
]
