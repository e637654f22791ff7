"""Authentication and authorization: one bearer token, whose holder may do everything. Health checks need none.

Also the review resources, by which clients ask what they may do (`kubectl auth can-i`, `whoami`), and the token
reviews, by which others ask whose a token is.
"""

import hmac
from typing import Any

from berth_cluster.apimachinery.errors import StoreError, bad_request
from berth_cluster.apimachinery.meta import Object

USER: dict[str, Any] = {
    "username": "berth-admin",
    "uid": "berth-admin",
    "groups": ["system:masters", "system:authenticated"],
}

# Kinds that can only be posted and are never stored: group -> plural -> kind.
REVIEWS = {
    "authorization.k8s.io": {
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        "subjectaccessreviews": "SubjectAccessReview",
        "localsubjectaccessreviews": "LocalSubjectAccessReview",
    },
    "authentication.k8s.io": {
        "selfsubjectreviews": "SelfSubjectReview",
        "tokenreviews": "TokenReview",
    },
}


class TokenAuthenticator:
    """Checks the bearer token of a request."""

    __slots__ = ("_expected", "token")

    def __init__(self, token: str) -> None:
        self.token = token
        self._expected = f"Bearer {token}".encode()

    def admit(self, authorization: str) -> None:
        """Raise 401 unless the Authorization header holds the token."""
        # Headers may hold bytes that are no UTF-8, which aiohttp gives as surrogates.
        if not hmac.compare_digest(authorization.encode(errors="surrogateescape"), self._expected):
            raise StoreError(401, "Unauthorized", "Unauthorized")

    def knows(self, token: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(token.encode(errors="surrogatepass"), self.token.encode())


def review(authenticator: TokenAuthenticator, group: str, plural: str, body: Object) -> Object:
    """The answer to one review."""
    kind = REVIEWS[group][plural]
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request(f"{kind}: spec must be an object")
    answer: Object = {
        "kind": kind,
        "apiVersion": f"{group}/v1",
        "metadata": {"creationTimestamp": None},
    }
    if "spec" in body:
        answer["spec"] = body["spec"]
    answer["status"] = _status(authenticator, kind, spec)
    return answer


def _status(authenticator: TokenAuthenticator, kind: str, spec: Object) -> Object:
    if kind == "SelfSubjectReview":
        return {"userInfo": USER}
    if kind == "TokenReview":
        known = authenticator.knows(str(spec.get("token", "")))
        return {"authenticated": True, "user": USER} if known else {"user": {}, "error": "invalid bearer token"}
    if kind == "SelfSubjectRulesReview":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        anywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {"resourceRules": [everything], "nonResourceRules": [anywhere], "incomplete": False}
    return {"allowed": True, "reason": "every authenticated user may do everything in this cluster"}
