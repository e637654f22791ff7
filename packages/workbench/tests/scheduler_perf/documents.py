"""Documents in scheduler_perf's format, small ones of our own, written where a test wants them."""

import yaml

POD = """apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
  labels: {index: "{{.Index}}", half: "{{ DivideInt .Index 2 }}"}
spec:
  containers:
  - {name: main, image: pause, resources: {requests: {cpu: 1000m}}}
"""
FILES = {
    "pod.yaml": POD,
    "named.yaml": POD.replace("generateName: pod-", 'name: "pod-{{.Index}}"').replace("1000m", "3"),
    "smaller.yaml": POD.replace("generateName: pod-", 'name: "pod-{{.Index}}"'),
    "important.yaml": POD.replace("containers:", "priority: 10\n  containers:").replace("1000m", "3"),
    "huge.yaml": POD.replace("1000m", "100"),
    "held.yaml": POD.replace("generateName: pod-", "generateName: pod-\n  finalizers: [example.com/held]"),
    "gated.yaml": POD.replace("containers:", "schedulingGates: [{name: wait}]\n  containers:"),
    "node.yaml": "kind: Node\nmetadata: {generateName: n-}\nstatus: {capacity: {pods: '9', cpu: '4', memory: 8Gi}}\n",
    "device-node.yaml": "kind: Node\nmetadata: {generateName: dra-}\nstatus: {capacity: {pods: '99', cpu: '4'}}\n",
    "pv.yaml": "kind: PersistentVolume\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadOnlyMany],"
    " csi: {driver: csi.example.com}}\n",
    "pvc.yaml": "kind: PersistentVolumeClaim\nmetadata: {annotations: {pv.kubernetes.io/bind-completed: 'true'}}\n"
    "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n",
    "class.yaml": "kind: DeviceClass\nmetadata: {name: gpu}\n"
    "spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}\n",
    "claim.yaml": "kind: ResourceClaim\nmetadata: {name: 'claim-{{.Index}}'}\n"
    "spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}\n",
    "claims.yaml": "kind: ResourceClaimTemplate\nmetadata: {name: claims}\n"
    "spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}}\n",
    "user.yaml": "kind: Pod\nmetadata: {generateName: user-}\nspec: {containers: [{name: main, image: pause}],"
    " resourceClaims: [{name: gpu, resourceClaimTemplateName: claims}]}\n",
    "secret.yaml": "kind: Secret\nmetadata: {name: s}\n",
}


def nodes(count):
    """An operation that creates so many nodes for four pods each."""
    return {"opcode": "createNodes", "count": count}


def pods(count, **fields):
    """An operation that creates so many pods for one CPU each."""
    return {"opcode": "createPods", "count": count, "podTemplatePath": "pod.yaml", **fields}


def measured(count, **fields):
    """An operation that creates the pods that are measured."""
    return pods(count, collectMetrics=True, **fields)


def written(directory, *operations, **workload):
    """The path of a document with one test of one workload, and templates beside it."""
    for name, text in FILES.items():
        (directory / name).write_text(text)
    test = {"name": "Test", "workloadTemplate": list(operations), "workloads": [{"name": "small", **workload}]}
    path = directory / "performance-config.yaml"
    path.write_text(yaml.safe_dump([test]))
    return path
