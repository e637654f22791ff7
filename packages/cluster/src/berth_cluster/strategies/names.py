"""The syntax of names, labels and annotations, with upstream's messages."""

import re
from collections.abc import Iterable
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_qualified = re.compile(_QUALIFIED).fullmatch
_is_value = re.compile(_VALUE).fullmatch

MAX_SUBDOMAIN = 253
MAX_LABEL = 63
MAX_PORT_NAME = 15
MAX_PORT = 65535
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
KEY_MESSAGE = (
    f"{QUALIFIED_MESSAGE.replace('name part', 'a valid label key')} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    f"validation is '{_VALUE}')"
)


def check_subdomain(name: Any, field: str, errors: FieldErrors, shown: str | None = None) -> None:
    """A name as most objects have it."""
    shown = name if shown is None else shown
    if len(name) > MAX_SUBDOMAIN:
        errors.invalid(field, shown, f"must be no more than {MAX_SUBDOMAIN} characters")
    if not _is_subdomain(name):
        errors.invalid(field, shown, SUBDOMAIN_MESSAGE)


def check_path_segment(name: str, field: str, errors: FieldErrors) -> None:
    """Anything that can stand in a path, such as `system:kube-scheduler`."""
    if name in (".", ".."):
        errors.invalid(field, name, f"may not be '{name}'")
    for character in "/%":
        if character in name:
            errors.invalid(field, name, f"may not contain '{character}'")


def check_label_name(name: Any, field: str, errors: FieldErrors, most: int = MAX_LABEL) -> None:
    """A name that becomes one part of a DNS name: namespaces, containers, services."""
    for mistake in label_mistakes(name, most):
        errors.invalid(field, name, mistake)


def label_mistakes(name: str, most: int = MAX_LABEL) -> list[str]:
    """What keeps a name from being one part of a DNS name."""
    found = [f"must be no more than {most} characters"] if len(name) > most else []
    if not _is_label(name):
        found.append("must not contain dots" if _is_subdomain(name) else LABEL_MESSAGE)
    return found


def check_port_name(name: str, field: str, errors: FieldErrors) -> None:
    """The name of a port, as IANA registers services."""
    if len(name) > MAX_PORT_NAME:
        errors.invalid(field, name, f"must be no more than {MAX_PORT_NAME} characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        errors.invalid(field, name, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        errors.invalid(field, name, "must contain at least one letter (a-z)")
    if "--" in name:
        errors.invalid(field, name, "must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.invalid(field, name, "must not begin or end with a hyphen")


def check_port(number: Any, field: str, errors: FieldErrors) -> None:
    """The number of a port."""
    if not 0 < number <= MAX_PORT:
        errors.invalid(field, number, f"must be between 1 and {MAX_PORT}, inclusive")


def check_key(key: str, field: str, errors: FieldErrors, shown: str | None = None) -> None:
    """A label or annotation key: an optional DNS prefix, a slash, a name."""
    shown = key if shown is None else shown
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        errors.invalid(field, shown, KEY_MESSAGE)
        return
    for prefix in prefixes:
        if not prefix:
            errors.invalid(field, shown, "prefix part must be non-empty")
            continue
        if len(prefix) > MAX_SUBDOMAIN:
            errors.invalid(field, shown, f"prefix part must be no more than {MAX_SUBDOMAIN} bytes")
        if not _is_subdomain(prefix):
            errors.invalid(field, shown, f"prefix part {SUBDOMAIN_MESSAGE}")
    if not name:
        errors.invalid(field, shown, "name part must be non-empty")
    elif len(name) > MAX_LABEL:
        errors.invalid(field, shown, f"name part must be no more than {MAX_LABEL} bytes")
    if not _is_qualified(name):
        errors.invalid(field, shown, QUALIFIED_MESSAGE)


def check_value(value: Any, field: str, errors: FieldErrors) -> None:
    """A label's value."""
    for why in value_mistakes(value):
        errors.invalid(field, value, why)


def value_mistakes(value: Any) -> list[str]:
    """What is wrong with a label's value."""
    if not isinstance(value, str):
        return ["must be a string"]
    too_long = [f"must be no more than {MAX_LABEL} bytes"] if len(value) > MAX_LABEL else []
    return too_long if _is_value(value) else [*too_long, VALUE_MESSAGE]


def check_labels(labels: Any, field: str, errors: FieldErrors) -> None:
    """A map of labels."""
    for key, value in _items(labels, field, errors):
        check_key(key, field, errors)
        check_value(value, field, errors)


def check_annotations(annotations: Any, field: str, errors: FieldErrors) -> None:
    """A map of annotations: keys as labels have them, any text as values, and not too much of it."""
    total = 0
    for key, value in _items(annotations, field, errors):
        check_key(key.lower(), field, errors, key)
        if isinstance(value, str):
            total += len(key) + len(value)
        else:
            errors.invalid(field, value, "must be a string")
    if total > MAX_ANNOTATIONS_BYTES:
        errors.invalid(field, f"{total} bytes", f"may not be more than {MAX_ANNOTATIONS_BYTES} bytes")


def _items(found: Any, field: str, errors: FieldErrors) -> Iterable[tuple[str, Any]]:
    if found and not isinstance(found, dict):
        errors.invalid(field, found, "must be a map of strings")
        return ()
    return (found or {}).items()


def check_selector(selector: Any, field: str, errors: FieldErrors) -> None:
    """A label selector in an object; none at all is not checked here."""
    if not isinstance(selector, dict):
        return
    check_labels(selector.get("matchLabels"), f"{field}.matchLabels", errors)
    for number, term in enumerate(selector.get("matchExpressions") or []):
        check_requirement(term, f"{field}.matchExpressions[{number}]", errors, _SELECTOR_OPERATORS)


def check_requirement(term: Any, field: str, errors: FieldErrors, operators: tuple[str, ...]) -> None:
    """One expression of a label selector, or of a node selector, which has more operators."""
    operator, values = term.get("operator", ""), term.get("values") or []
    if operator not in operators:
        errors.invalid(f"{field}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn"):
        if not values:
            errors.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif values:
        errors.forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    check_key(term.get("key", ""), f"{field}.key", errors)
    for number, value in enumerate(values if operator not in ("Gt", "Lt") else []):
        check_value(value, f"{field}.values[{number}]", errors)


def check_meta(meta: dict[str, Any], errors: FieldErrors) -> None:
    """Labels, annotations and finalizers of any object."""
    check_labels(meta.get("labels"), "metadata.labels", errors)
    check_annotations(meta.get("annotations"), "metadata.annotations", errors)
    for number, finalizer in enumerate(meta.get("finalizers") or []):
        field = f"metadata.finalizers[{number}]"
        check_key(finalizer, field, errors)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            errors.invalid(field, finalizer, "name is neither a standard finalizer name nor is it fully qualified")
