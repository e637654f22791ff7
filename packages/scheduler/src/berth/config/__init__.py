"""The scheduler's configuration: turns documents into one immutable `SchedulerConfiguration`.

`load` reads and dispatches on apiVersion, `v1` converts and fills defaults, `validation` checks, `defaults`
holds the default profile and expands it per extension point, `plugin_args` decodes the args that each plugin
declares.
"""
