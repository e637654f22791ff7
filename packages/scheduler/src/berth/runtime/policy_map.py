"""The Policy that a v1.20 configuration keeps in a ConfigMap: read once, before the scheduler is made.

Called by `berth run` with the configuration that names the ConfigMap; a configuration that names none is returned
unchanged. Any problem is a ConfigError: a cluster that does not answer, a missing ConfigMap, or its text.
"""

from typing import Any

import msgspec

from berth.api.errors import TransportError
from berth.api.resources import RESOURCES
from berth.config.errors import ConfigError, errors_in
from berth.config.legacy.construction import with_config_map
from berth.config.load import checked
from berth.config.types import SchedulerConfiguration
from berth.kube.transport import Transport


async def with_policy_of_cluster(config: SchedulerConfiguration, transport: Transport) -> SchedulerConfiguration:
    """Return the configuration with the Policy of its ConfigMap, if it names one. Raises ConfigError."""
    if config.policy_config_map is None:
        return config
    namespace, name = config.policy_config_map
    try:
        body = await transport.get(RESOURCES["ConfigMap"], namespace, name)
    except TransportError as error:
        raise ConfigError([f"couldn't get policy config map {namespace}/{name}: {error}"]) from None
    data: Any = msgspec.json.decode(body).get("data") or {}
    where = f"ConfigMap {namespace}/{name}"
    with errors_in(where):
        return checked(with_config_map(config, data))
