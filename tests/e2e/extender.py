"""An extender written with nothing but the standard library, as one might find it in a cluster."""

import contextlib
import json
import ssl
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class GpuExtender:
    """Knows nodes with licences; binds by itself through the API server. `calls` says what it was asked."""

    def __init__(self, licensed, api_url, token):
        self.licensed, self.calls = licensed, []
        self._api_url, self._token = api_url, token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def filter(self, args):
        nodes = args["Nodes"]["items"]
        kept = [node for node in nodes if node["metadata"]["name"] in self.licensed]
        failed = {node["metadata"]["name"]: "no licence" for node in nodes if node not in kept}
        return {"nodes": {"items": kept}, "failedNodes": failed, "error": ""}

    def prioritize(self, args):
        return [{"host": node["metadata"]["name"], "score": self.licensed[node["metadata"]["name"]]}
                for node in args["Nodes"]["items"]]  # fmt: skip

    def preempt(self, args):
        return {
            "nodeNameToMetaVictims": {
                name: {"pods": [{"uid": pod["metadata"]["uid"]} for pod in victims["Pods"]], "numPDBViolations": 0}
                for name, victims in args["NodeNameToVictims"].items()
                if name in self.licensed
            }
        }

    def bind(self, args):
        namespace, name = args["PodNamespace"], args["PodName"]
        binding = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": args["PodUID"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": args["Node"]},
        }  # fmt: skip
        request = urllib.request.Request(
            f"{self._api_url}/api/v1/namespaces/{namespace}/pods/{name}/binding",
            json.dumps(binding).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
        )
        urllib.request.urlopen(request, context=self._tls, timeout=60).close()
        return {"error": ""}

    def answer(self, path, body):
        verb, args = path.rpartition("/")[2], json.loads(body)
        self.calls.append((verb, args))
        return json.dumps(getattr(self, verb)(args)).encode()


@contextlib.contextmanager
def listening(extender):
    """Serve an extender on loopback, in threads; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = extender.answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/scheduler"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
