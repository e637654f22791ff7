"""Custom resources: what a CustomResourceDefinition says of its kind, and what follows for the kind's objects."""
