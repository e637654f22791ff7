"""Objects as messages of the API server show them: as JSON of Go's internal types, and what differs between two.

An internal type has the fields of the versioned one under their names in Go, all of them, set or not. Of a few types
the order is another, or fields stand elsewhere.
"""

import difflib
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import Raw
from berth_cluster.apimachinery.schema import ZEROS, Json, Message, message

_ODD_NAMES = MappingProxyType({"cephfs": "CephFS", "storageos": "StorageOS"})
_NONE: MappingProxyType[str, Any] = MappingProxyType({})
MAX_LINES = 2000  # of an object that is compared line by line
_INITIALS = re.compile(
    "(?:api|aws|ca|csi|dns|fc|fs|gce|grpc|http|id|ip|iqn|iscsi|nfs|os|pid|rbd|se|tcp|tty|uid|url)(?=[A-Z]|$)"
)
_POD = "core.v1.PodSpec"
_OF_SECURITY_CONTEXT = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ORDER = MappingProxyType(
    {
        name: tuple(fields.split())
        for name, fields in {
            "core.v1.Container": "name image command args workingDir ports envFrom env resources resizePolicy "
            "restartPolicy restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe "
            "lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce "
            "tty",
            "core.v1.PersistentVolumeClaimSpec": "accessModes selector resources volumeName storageClassName "
            "volumeMode dataSource dataSourceRef volumeAttributesClassName",
            "core.v1.PodSecurityContext": " ".join(_OF_SECURITY_CONTEXT) + " seLinuxOptions windowsOptions runAsUser "
            "runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup fsGroupChangePolicy sysctls "
            "seccompProfile appArmorProfile seLinuxChangePolicy",
            _POD: "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds "
            "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName automountServiceAccountToken nodeName "
            "securityContext imagePullSecrets hostname subdomain setHostnameAsFQDN affinity schedulerName tolerations "
            "hostAliases priorityClassName priority preemptionPolicy dnsConfig readinessGates runtimeClassName "
            "overhead enableServiceLinks topologySpreadConstraints os schedulingGates resourceClaims resources "
            "hostnameOverride schedulingGroup",
            "core.v1.SecurityContext": "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup "
            "runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile appArmorProfile",
            "core.v1.PersistentVolumeSource": "gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd "
            "quobyte iscsi flexVolume cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk "
            "portworxVolume scaleIO local storageos csi",
            "core.v1.VolumeSource": "hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi "
            "glusterfs persistentVolumeClaim rbd quobyte flexVolume cinder cephfs flocker downwardAPI fc azureFile "
            "configMap vsphereVolume azureDisk photonPersistentDisk projected portworxVolume scaleIO storageos csi "
            "ephemeral image",
            "core.v1.VolumeMount": "name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr",
        }.items()
    }
)


def in_go(name: str, value: Json, field: str = "", empties: Mapping[str, Any] = _NONE) -> Raw:
    """An object of the type of that name, in one line; `field` is where it is, for those of the `empties` in it."""
    return Raw(json.dumps(_in_go(message(name), value, field, empties), separators=(",", ":"), ensure_ascii=False))


def difference(name: str, old: Json, new: Json, field: str = "", empties: Mapping[str, Any] = _NONE) -> str:
    """What differs between two objects of a type, as lines with some context; empty where there is too much of them."""
    was, now = (
        json.dumps(_in_go(message(name), each, field, held), indent=1, ensure_ascii=False).splitlines()
        for each, held in ((old, _NONE), (new, empties))
    )
    if max(len(was), len(now)) > MAX_LINES:
        return ""
    return "".join(f"{line}\n" for line in [*difflib.unified_diff(was, now, n=3, lineterm="")][2:])


def _in_go(known: Message, value: Json, at: str, empties: Mapping[str, Any]) -> Json:
    if known.name.startswith("meta."):  # which there is in one form only
        return value
    if known.name == _POD:
        moved = {key: value[key] for key in _OF_SECURITY_CONTEXT if key in value}
        value = {**value, "securityContext": {**(value.get("securityContext") or {}), **moved}}
    shown: Json = {}
    for name in _names(known):
        field = known.fields.get(name) or message(_POD).fields[name]
        found, place = value.get(name), f"{at}.{name}"
        if found is None and place in empties:
            found = empties[place]
        elif found is None:
            found = None if field.is_pointer or field.is_list or field.is_map else _ZEROS.get(field.type)
        elif not field.is_scalar and isinstance(found, list):
            found = [_in_go(message(field.type), one, f"{place}[{index}]", empties) for index, one in enumerate(found)]
        elif not field.is_scalar and isinstance(found, dict) and not field.is_map:
            found = _in_go(message(field.type), found, place, empties)
        shown[_name(name)] = found
    return shown


def _names(known: Message) -> list[str]:
    """The fields of a type, and those of the structs that it has inline, in the order of Go."""
    part = known.name.partition("@")[0]
    if part in _ORDER:
        return list(_ORDER[part])
    ordered = []
    for field in known.numbers.values():
        ordered += _names(message(field.type)) if field.name == "inline" else [field.name]
    return ordered


def _name(name: str) -> str:
    if name in _ODD_NAMES:
        return _ODD_NAMES[name]
    found = _INITIALS.match(name)
    return f"{found[0].upper()}{name[found.end() :]}" if found else f"{name[:1].upper()}{name[1:]}"


_ZEROS = {key: zero for key, zero in ZEROS.items() if key not in ("IntOrString", "Quantity")}
