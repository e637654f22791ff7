"""The syntax of names, labels and annotations, with upstream's messages."""

import re
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

MAX_SUBDOMAIN = 253
MAX_LABEL = 63
MAX_ANNOTATIONS_BYTES = 256 * 1024

LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    f"validation is '{_VALUE}')"
)


def check_subdomain(name: Any, field: str, errors: FieldErrors) -> None:
    """A name as most objects have it."""
    if not isinstance(name, str) or not _is_subdomain(name):
        errors.invalid(field, name, SUBDOMAIN_MESSAGE)
    elif len(name) > MAX_SUBDOMAIN:
        errors.invalid(field, name, f"must be no more than {MAX_SUBDOMAIN} bytes")


def check_label_name(name: Any, field: str, errors: FieldErrors) -> None:
    """A name that becomes one part of a DNS name: namespaces, containers, services."""
    if not isinstance(name, str) or not _is_label(name):
        errors.invalid(field, name, LABEL_MESSAGE)
    elif len(name) > MAX_LABEL:
        errors.invalid(field, name, f"must be no more than {MAX_LABEL} bytes")


def check_key(key: str, field: str, errors: FieldErrors) -> None:
    """A label or annotation key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _is_subdomain(prefix) or len(prefix) > MAX_SUBDOMAIN):
        errors.invalid(field, key, f"prefix part {SUBDOMAIN_MESSAGE}" if prefix else "prefix part must be non-empty")
    if not name:
        errors.invalid(field, key, "name part must be non-empty")
    elif len(name) > MAX_LABEL:
        errors.invalid(field, key, f"name part must be no more than {MAX_LABEL} bytes")
    elif not _is_qualified(name):
        errors.invalid(field, key, QUALIFIED_MESSAGE)


def check_value(value: Any, field: str, errors: FieldErrors) -> None:
    """A label's value."""
    if not isinstance(value, str):
        errors.invalid(field, value, "must be a string")
    elif len(value) > MAX_LABEL:
        errors.invalid(field, value, f"must be no more than {MAX_LABEL} bytes")
    elif not _is_value(value):
        errors.invalid(field, value, VALUE_MESSAGE)


def check_labels(labels: Any, field: str, errors: FieldErrors) -> None:
    """A map of labels."""
    if not labels:
        return
    if not isinstance(labels, dict):
        errors.invalid(field, labels, "must be a map of strings")
        return
    for key, value in labels.items():
        check_key(key, field, errors)
        check_value(value, field, errors)


def check_annotations(annotations: Any, field: str, errors: FieldErrors) -> None:
    """A map of annotations: keys as labels have them, any text as values, and not too much of it."""
    if not annotations:
        return
    if not isinstance(annotations, dict):
        errors.invalid(field, annotations, "must be a map of strings")
        return
    total = 0
    for key, value in annotations.items():
        check_key(key.lower(), field, errors)
        if isinstance(value, str):
            total += len(key) + len(value)
        else:
            errors.invalid(field, value, "must be a string")
    if total > MAX_ANNOTATIONS_BYTES:
        errors.invalid(field, f"{total} bytes", f"may not be more than {MAX_ANNOTATIONS_BYTES} bytes")
