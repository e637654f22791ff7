"""YAML in which a key that is given twice is an error.

PyYAML and Helm keep the last of two equal keys without a word, so that what stood under the first is lost.
"""

import yaml


class StrictLoader(yaml.CSafeLoader):
    """PyYAML's loader, but for mappings with a key that is there already."""


def _mapping(loader, node):
    found = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in found:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def documents_of(text):
    """All documents of a text that hold something."""
    return [document for document in yaml.load_all(text, StrictLoader) if document is not None]
