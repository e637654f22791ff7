"""What is typed as text for a field of a request, as it is in an address: read, and as the flags of the command."""

import re
from typing import Any, Literal, get_args, get_origin

import msgspec

from berth.config.document import parse_document
from berth_workbench.questions.question import RequestField


def choices_of(field: RequestField) -> tuple[str, ...]:
    """Return what a field can be chosen from; none where it cannot."""
    for kind in (field.type, *get_args(field.type)):
        if get_origin(kind) is Literal:
            return get_args(kind)
    return ()


def is_number(field: RequestField) -> bool:
    """Whether a field is a number, or may be one."""
    return any(each in (int, float) for each in (field.type, *get_args(field.type)))


def text_of(value: Any) -> str:
    """Return a value as it would be typed; empty for what is no text or number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.15g}"
    return value if isinstance(value, str) else ""


def value_of(field: RequestField, typed: str) -> Any:
    """Return what was typed into an input, as the request has it. Raises ValueError."""
    text = typed.strip()
    if field.type is bool:
        return text == "true"
    if field.ask.reads is not None:
        return field.ask.reads(parse_document(text.encode(), field.name)) if text else _given(field)
    if get_origin(field.type) is tuple:
        return tuple(_choice(field, word.strip()) for word in text.split(",") if word.strip())
    if not text:
        return _given(field)
    if choices_of(field):
        return _choice(field, text)
    return _number(field, text) if is_number(field) else text


def _given(field: RequestField) -> Any:
    """Return the value if nothing was typed. Raises ValueError if something has to be typed."""
    if field.default is msgspec.NODEFAULT:
        raise ValueError(f"{field.flag.lstrip('-')}: this has to be given. {field.ask.help}")
    return field.default


def _choice(field: RequestField, word: str) -> str:
    kind = get_args(field.type)[0] if get_origin(field.type) is tuple else field.type
    choices = get_args(kind) if get_origin(kind) is Literal else choices_of(field)
    if choices and word not in choices:
        raise ValueError(f"{field.flag.lstrip('-')}: there are {', '.join(choices)}, not {word!r}")
    return word


def _number(field: RequestField, text: str) -> float:
    least, most = field.ask.least, field.ask.most
    is_whole = not any(each is float for each in (field.type, *get_args(field.type)))
    try:
        number: float | None = int(text) if is_whole else float(text)
    except ValueError:
        number = None
    if number is None or number != number or (least is not None and number < least) or (most and number > most):
        bounds = f" from {least:,.15g} to {most:,.15g}" if least is not None and most is not None else ""
        what = "a whole number" if is_whole else "a number"
        raise ValueError(f"{field.flag.lstrip('-')}: {what}{bounds} is expected, not {text!r}")
    return number


def flags_of(field: RequestField, typed: str) -> list[str]:
    """Return the flags by which the command takes what was typed; of a document, a file of the field's name."""
    text = typed.strip()
    if not text:
        return []
    if field.ask.reads is not None:
        return [field.flag, f"{field.name}.yaml"]
    if get_origin(field.type) is tuple:
        named = [field.flag] if field.flag.startswith("-") else []
        return [word for each in re.split(r"[\s,]+", text) for word in (*named, each)]
    if field.type is bool:
        return [field.flag] if text == "true" else []
    return [] if text == text_of(field.default) else [field.flag, text]
