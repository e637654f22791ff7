"""Guest plugins for Berth: what the plugins of kubernetes-sigs/scheduler-plugins do, one module for each.

They take upstream's configuration and custom resources as they are. Of Berth they import `berth.plugin` alone: they are
loaded like anybody's plugins, by their entry points, and could live in any repository.
"""
