"""EndpointSlices and Endpoints of Services, after upstream's conformance specs "[sig-network] EndpointSlice should …".

What they look like is what kube-controller-manager v1.36 makes of the same pods and Services.
"""

from packages.cluster.tests.controllers.world import World, meta, pod


def service(name="web", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "m", "port": 9090, "targetPort": 9091}]
    spec = {"selector": {"app": "web"}, "ports": ports, **spec}
    return {"kind": "Service", "metadata": meta(name, labels={"x": "y"}), "spec": spec}


def web_pod(name, **spec):
    made = pod(name, **spec)
    made["metadata"]["labels"] = {"app": "web"}
    made["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    return made


def slices(world, name="web"):
    found = world.all("EndpointSlice")
    return [one for one in found if one["metadata"]["labels"].get("kubernetes.io/service-name") == name]


def conditions(world, name="web"):
    found = (endpoint for one in slices(world, name) for endpoint in one["endpoints"])
    return {one["targetRef"]["name"]: tuple(one["conditions"].values()) for one in found}


def test_should_create_endpoints_and_endpoint_slices_for_pods_matching_a_service():
    world = World(nodes=1)
    made = world.create(service())
    world.run()
    (empty,) = slices(world)
    assert (empty["endpoints"], empty["ports"], empty["addressType"]) == (None, None, "IPv4")
    one = world.create(web_pod("one"))
    world.run()
    (found,) = slices(world)
    assert found["metadata"]["name"] == empty["metadata"]["name"]
    assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["labels"] == {
        "x": "y",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert found["ports"] == [
        {"name": "http", "protocol": "TCP", "port": 8080},
        {"name": "m", "protocol": "TCP", "port": 9091},
    ]
    address = world.get("Pod", "one")["status"]["podIP"]
    reference = {"kind": "Pod", "namespace": "default", "name": "one", "uid": one["metadata"]["uid"]}
    (endpoint,) = found["endpoints"]
    assert endpoint.items() >= {"addresses": [address], "nodeName": "node-0", "targetRef": reference}.items()
    assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}
    (subset,) = world.get("Endpoints", "web")["subsets"]
    assert subset["addresses"] == [{"ip": address, "nodeName": "node-0", "targetRef": reference}]
    assert [port["port"] for port in subset["ports"]] == [8080, 9091]


def test_should_delete_endpoints_and_endpoint_slices_with_their_service():
    world = World()
    world.create(service())
    world.create(web_pod("one"))
    world.run()
    world.delete("Service", "web")
    world.run()
    assert slices(world) == [] and world.get("Endpoints", "web") is None


def test_readiness_and_deletion_are_told():
    world = World()
    for name in ("one", "two", "three"):
        world.create(web_pod(name, hostname=name, subdomain="web"))
    world.create(service())
    world.create(service("all", publishNotReadyAddresses=True))
    world.run()
    world.patch("Pod", "two", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
    world.delete("Pod", "three")
    world.run()
    told = {"one": (True, True, False), "two": (False, False, False), "three": (False, True, True)}
    assert conditions(world) == told
    assert conditions(world, "all") == {name: (True, *rest) for name, (_, *rest) in told.items()}
    (subset,) = world.get("Endpoints", "web")["subsets"]
    assert [one["hostname"] for one in subset["addresses"]] == ["one"]
    assert [one["hostname"] for one in subset["notReadyAddresses"]] == ["two"]
    world.run(5)
    assert set(conditions(world)) == {"one", "two"}


def test_named_ports_part_the_slices_and_so_does_the_hundredth_pod():
    world = World(nodes=2)
    for number in range(105):
        world.create(web_pod(f"p{number}"))
    other = web_pod("other")
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = 81
    world.create(other)
    world.create(service())
    world.run()
    assert sorted((one["ports"][0]["port"], len(one["endpoints"])) for one in slices(world)) == [
        (81, 1),
        (8080, 5),
        (8080, 100),
    ]
    for number in range(10):
        world.delete("Pod", f"p{number}")
    world.run(5)
    assert sorted(len(one["endpoints"]) for one in slices(world)) == [1, 95]


def test_a_headless_service_may_do_without_ports():
    world = World(nodes=1)
    world.create(service(clusterIP="None", ports=[]))
    world.create(web_pod("one"))
    world.run()
    (found,) = slices(world)
    assert (found["ports"], found["metadata"]["labels"]["service.kubernetes.io/headless"]) == (None, "")
    assert "ports" not in world.get("Endpoints", "web")["subsets"][0]


def test_services_without_a_selector_are_left_alone():
    world = World()
    world.create(service(selector=None))
    world.create(web_pod("one"))
    world.run()
    assert slices(world) == [] and world.get("Endpoints", "web") is None
