"""Writing the configuration out: kube-scheduler's own default file from nothing, and back without loss."""

from typing import Any

import msgspec
import pytest
import yaml

from berth.config.document import parse_document
from berth.config.dump import dump_config
from berth.config.durations import Duration
from berth.config.load import default_config, load_config
from packages.scheduler.tests.config.documents import names, profile_document, v1_document


class Resource(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    weight: int = 1


CPU_AND_MEMORY = (Resource("cpu"), Resource("memory"))


class BalancedArgs(msgspec.Struct, frozen=True, rename="camel"):
    resources: tuple[Resource, ...] = CPU_AND_MEMORY


class Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "LeastAllocated"
    resources: tuple[Resource, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: Any = None


class FitArgs(msgspec.Struct, frozen=True, rename="camel"):
    ignored_resources: tuple[str, ...] = ()
    scoring_strategy: Strategy = Strategy()


class DynamicArgs(msgspec.Struct, frozen=True, rename="camel"):
    filter_timeout: Duration = Duration(10)
    binding_timeout: Duration = Duration(600)


class AffinityArgs(msgspec.Struct, frozen=True, rename="camel"):
    added_affinity: dict[str, Any] | None = None


class InterPodArgs(msgspec.Struct, frozen=True, rename="camel"):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NotEnabledArgs(msgspec.Struct, frozen=True, rename="camel"):
    x: int = 1


TYPES = {
    "NodeResourcesBalancedAllocation": BalancedArgs,
    "NodeResourcesFit": FitArgs,
    "DynamicResources": DynamicArgs,
    "NodeAffinity": AffinityArgs,
    "InterPodAffinity": InterPodArgs,
    "NotEnabled": NotEnabledArgs,
}

# What kube-scheduler v1.36 writes for an empty document, without the args of the plugins that are not above.
UPSTREAM = """
apiVersion: kubescheduler.config.k8s.io/v1
clientConnection:
  acceptContentTypes: ""
  burst: 100
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 50
enableContentionProfiling: true
enableProfiling: true
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  resourceLock: leases
  resourceName: kube-scheduler
  resourceNamespace: kube-system
  retryPeriod: 2s
parallelism: 16
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
profiles:
- pluginConfig:
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      bindingTimeout: 10m0s
      filterTimeout: 10s
      kind: DynamicResourcesArgs
    name: DynamicResources
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      hardPodAffinityWeight: 1
      ignorePreferredTermsOfExistingPods: false
      kind: InterPodAffinityArgs
    name: InterPodAffinity
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeAffinityArgs
    name: NodeAffinity
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesBalancedAllocationArgs
      resources:
      - name: cpu
        weight: 1
      - name: memory
        weight: 1
    name: NodeResourcesBalancedAllocation
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        resources:
        - name: cpu
          weight: 1
        - name: memory
          weight: 1
        type: LeastAllocated
    name: NodeResourcesFit
  plugins:
    bind: {}
    filter: {}
    multiPoint:
      enabled:
      - {name: SchedulingGates, weight: 0}
      - {name: PrioritySort, weight: 0}
      - {name: NodeUnschedulable, weight: 0}
      - {name: NodeName, weight: 0}
      - {name: TaintToleration, weight: 3}
      - {name: NodeAffinity, weight: 2}
      - {name: NodePorts, weight: 0}
      - {name: NodeResourcesFit, weight: 1}
      - {name: VolumeRestrictions, weight: 0}
      - {name: NodeVolumeLimits, weight: 0}
      - {name: VolumeBinding, weight: 0}
      - {name: VolumeZone, weight: 0}
      - {name: PodTopologySpread, weight: 2}
      - {name: InterPodAffinity, weight: 2}
      - {name: DynamicResources, weight: 2}
      - {name: DefaultPreemption, weight: 0}
      - {name: NodeResourcesBalancedAllocation, weight: 1}
      - {name: ImageLocality, weight: 1}
      - {name: DefaultBinder, weight: 0}
      - {name: NodeDeclaredFeatures, weight: 0}
    permit: {}
    placementGenerate: {}
    placementScore: {}
    postBind: {}
    postFilter: {}
    preBind: {}
    preEnqueue: {}
    preFilter: {}
    preScore: {}
    queueSort: {}
    reserve: {}
    score: {}
  schedulerName: default-scheduler
"""


def test_defaults_are_upstreams_file():
    expected = yaml.safe_load(UPSTREAM)
    # There a 0 stands for a field that was left out; here leaving it out means every node, and stays left
    # out.
    del expected["percentageOfNodesToScore"]
    assert dump_config(default_config(), TYPES) == expected


def test_an_explicit_percentage_is_written():
    config = load_config(v1_document(percentageOfNodesToScore=0, profiles=[{"percentageOfNodesToScore": 30}]))
    document = dump_config(config)
    assert document["percentageOfNodesToScore"] == 0
    assert document["profiles"][0]["percentageOfNodesToScore"] == 30


@pytest.mark.parametrize(
    "document",
    [
        v1_document(),
        yaml.safe_load(UPSTREAM),
        v1_document(percentageOfNodesToScore=50, parallelism=1, delayCacheUntilActive=True, enableProfiling=False),
        profile_document(
            {
                "multiPoint": {"enabled": [{"name": "Mine", "weight": 2}], "disabled": names("ImageLocality")},
                "score": {"enabled": [{"name": "NodeAffinity", "weight": 9}], "disabled": names("NodeAffinity")},
                "filter": {"disabled": names("*")},
            },
            pluginConfig=[{"name": "Mine", "args": {"a": [1, None]}}],
        ),
        profile_document({"multiPoint": {"enabled": names("B", "A"), "disabled": names("*")}}),
        v1_document(
            extenders=[
                {
                    "urlPrefix": "https://h/",
                    "filterVerb": "f",
                    "httpTimeout": "1500ms",
                    "enableHTTPS": True,
                    "tlsConfig": {"certData": "Y2VydA==", "serverName": "s"},
                    "managedResources": [{"name": "a.io/b", "ignoredByScheduler": True}],
                }
            ]
        ),
        v1_document(leaderElection={"leaderElect": False, "leaseDuration": "1h"}, clientConnection={"qps": 1.5}),
    ],
)
def test_round_trip_through_yaml(document):
    config = load_config(document)
    text = yaml.safe_dump(dump_config(config))
    assert load_config(parse_document(text, "written")) == config
