"""Message classes of `google.protobuf`, made from tables instead of generated code.

Whoever reads or writes protobuf says in a table what a .proto file says: for each message its fields, each with number,
name and type. A type is a scalar or another message of the table, with `[]` before it where there are several.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = frozenset({"bool", "bytes", "double", "int32", "int64", "string", "uint64"})


def message_classes(package: str, table: Mapping[str, str]) -> dict[str, Any]:
    """The class of each message of a table such as `{"Point": "1 x int64, 2 y int64", "Line": "1 points []Point"}`.

    A field that was set is written, zero or not, and one that was read says whether it was there; texts must be UTF-8.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="editions", edition=descriptor_pb2.EDITION_2023
    )
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for described in filter(None, fields.split(",")):
            number, field_name, kind = described.split()
            element = kind.removeprefix("[]")
            field = message.field.add(name=field_name, number=int(number), label=_Field.LABEL_OPTIONAL)
            if element != kind:
                field.label = _Field.LABEL_REPEATED
            if element in _SCALARS:
                field.type = _Field.Type.Value(f"TYPE_{element.upper()}")
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{element}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in table}
