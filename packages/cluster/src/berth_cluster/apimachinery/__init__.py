"""What all API objects have in common: their types and fields, how they are encoded, patched, selected and refused."""
