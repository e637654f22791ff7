"""Tokens of ServiceAccounts: the `token` subresource signs them (`kubectl create token`), and requests show them.

A token is a JWT as the real server's (pkg/serviceaccount): signed with ES256 by the cluster's CA key, for a time, for
audiences, and bound to the account and perhaps to a pod, secret or node. It is good as long as these are there.
"""

import base64
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

from berth_cluster.apimachinery.errors import FieldErrors, bad_request, conflict
from berth_cluster.apimachinery.meta import Object, format_time, uid_of
from berth_cluster.apimachinery.resource_types import SERVICE_ACCOUNTS, resource_of
from berth_cluster.serving.rbac import ClusterUser
from berth_cluster.storage.store import Store

ISSUER = "https://kubernetes.default.svc.cluster.local"
DEFAULT_LIFE_S, LEAST_LIFE_S, MOST_LIFE_S = 3600, 600, 1 << 32
_BINDABLE = ("Pod", "Secret", "Node")
_HASH = ec.ECDSA(SHA256())
_HEAD = b'{"alg":"ES256","typ":"JWT"}'
_PART_BYTES = 32  # of a signature, which is two numbers


def account_user(namespace: str, name: str, uid: str = "", extra: dict[str, list[str]] | None = None) -> ClusterUser:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return ClusterUser(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra or {})


class AccountTokens:
    """Signs tokens for the accounts of a store, and reads them."""

    __slots__ = ("_claims_of", "_key", "_store")

    def __init__(self, store: Store, key: ec.EllipticCurvePrivateKey) -> None:
        self._store = store
        self._key = key
        self._claims_of = lru_cache(maxsize=1024)(self._verified)

    def issue(self, namespace: str, name: str, request: Object) -> Object:
        """The TokenRequest with a token; refused where there is no such account, or no object to bind to."""
        account = self._store.get(SERVICE_ACCOUNTS, namespace, name)
        spec = request.get("spec") or {}
        life_s = spec.get("expirationSeconds") or DEFAULT_LIFE_S
        errors = FieldErrors()
        if life_s < LEAST_LIFE_S:
            errors.invalid("spec.expirationSeconds", life_s, "may not specify a duration less than 10 minutes")
        if life_s > MOST_LIFE_S:
            errors.invalid("spec.expirationSeconds", life_s, "may not specify a duration larger than 2^32 seconds")
        errors.raise_for("TokenRequest", "authentication.k8s.io", "")
        audiences = spec.get("audiences") or [ISSUER]
        now_s = int(self._store.clock().timestamp())
        bound: Object = {"namespace": namespace, "serviceaccount": _named(account)}
        bound |= self._bound_to(account, spec.get("boundObjectRef") or {})
        user = account_user(namespace, name).name
        claims = {"aud": audiences, "exp": now_s + life_s, "iat": now_s, "iss": ISSUER, "jti": self._store.new_uid(),
                  "kubernetes.io": bound, "nbf": now_s, "sub": user}  # fmt: skip
        answer = {"audiences": audiences, "expirationSeconds": life_s, "boundObjectRef": spec.get("boundObjectRef")}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": format_time(now_s)},
            "spec": answer,
            "status": {"token": self._signed(claims), "expirationTimestamp": format_time(now_s + life_s)},
        }

    def _bound_to(self, account: Object, reference: Object) -> Object:
        """The claim about the object that a token is bound to."""
        kind, name, namespace = reference.get("kind"), reference.get("name", ""), account["metadata"]["namespace"]
        if not kind:
            return {}
        if kind not in _BINDABLE:
            raise bad_request(f"cannot bind token for serviceaccount {account['metadata']['name']!r} to a {kind}")
        obj = self._store.get(resource_of(kind), namespace, name)
        if reference.get("uid") and reference["uid"] != uid_of(obj):
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(resource_of(kind).plural, "", name, why)
        if kind == "Pod" and obj["spec"].get("serviceAccountName") != account["metadata"]["name"]:
            why = f'cannot bind token for serviceaccount "{account["metadata"]["name"]}" to pod running with different'
            raise bad_request(f'{why} serviceaccount name "{obj["spec"].get("serviceAccountName", "")}"')
        return {kind.lower(): _named(obj)}

    def _signed(self, claims: Object) -> str:
        text = _encoded(_HEAD) + b"." + _encoded(msgspec.json.encode(claims))
        numbers = utils.decode_dss_signature(self._key.sign(text, _HASH))
        signature = b"".join(number.to_bytes(_PART_BYTES, "big") for number in numbers)
        return (text + b"." + _encoded(signature)).decode()

    def user_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> ClusterUser | None:
        """Whose a token is, if it is good now for one of the audiences; None otherwise."""
        claims = self._claims_of(token)
        now_s = self._store.clock().timestamp()
        if claims is None or not claims["nbf"] <= now_s < claims["exp"] or not set(audiences) & set(claims["aud"]):
            return None
        bound = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        for kind in ("ServiceAccount", *_BINDABLE):
            named = bound.get(kind.lower())
            found = named and self._store.find(resource_of(kind), namespace, named["name"])
            if named and (found is None or uid_of(found) != named["uid"]):
                return None
        extra = {"credential-id": [f"JTI={claims['jti']}"]}
        for kind in ("pod", "node"):
            if kind in bound:
                extra |= {f"{kind}-name": [bound[kind]["name"]], f"{kind}-uid": [bound[kind]["uid"]]}
        prefixed = {f"authentication.kubernetes.io/{name}": value for name, value in extra.items()}
        return account_user(namespace, account["name"], account["uid"], prefixed)

    def _verified(self, token: str) -> Any:
        """The claims of a token that we have signed; None for any other."""
        text, _, signature = token.rpartition(".")
        try:
            raw = _decoded(signature)
            parts = (int.from_bytes(half, "big") for half in (raw[:_PART_BYTES], raw[_PART_BYTES:]))
            self._key.public_key().verify(utils.encode_dss_signature(*parts), text.encode(), _HASH)
            return msgspec.json.decode(_decoded(text.partition(".")[2]))
        except (InvalidSignature, ValueError):
            return None


def _named(obj: Object) -> Object:
    return {"name": obj["metadata"]["name"], "uid": uid_of(obj)}


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
