"""Authentication, and the review resources by which clients ask who somebody is and what they may do.

The holder of the server's own token is the administrator, who may do everything. Further identities come from client
certificates that the server's CA has signed (common name and organizations, as kubeadm's are) and from tokens that
the operator of the server names; what these may do, the stored RBAC objects say (`rbac`). Nobody is anonymous: a
request without a credential is 401, health checks apart, and in reviews `system:anonymous` has what RBAC gives it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import FieldErrors, StoreError, bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.rbac import ClusterUser, RbacAttributes, RbacAuthorizer

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMINISTRATOR = ClusterUser("berth-admin", (MASTERS, AUTHENTICATED), "berth-admin")
MAX_TOKEN_CHARACTERS = 16 * 1024

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


class ClusterAuthenticator:
    """Says whose a request is, by its bearer token or its client certificate."""

    __slots__ = ("_known", "token")

    def __init__(self, token: str, others: Mapping[str, ClusterUser] | None = None) -> None:
        self.token = token
        # Tokens are kept and compared as digests of one length, so that the time a comparison takes says nothing.
        known = {**(others or {}), token: ADMINISTRATOR}
        self._known = [(_digest(text), _authenticated(user)) for text, user in known.items()]

    def admit(self, authorization: str, certificate: Mapping[str, Any] | None = None) -> ClusterUser:
        """Whose the request is; raises 401 for a wrong token, or where there is no credential at all."""
        if authorization:
            scheme, _, token = authorization.partition(" ")
            found = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        else:
            found = certified_user(certificate) if certificate else None
        if found is None:
            raise StoreError(401, "Unauthorized", "Unauthorized")
        return found

    def user_of(self, token: str) -> ClusterUser | None:
        """Whose a token is; None for one that nobody has."""
        if not token or len(token) > MAX_TOKEN_CHARACTERS:
            return None
        given, found = _digest(token), None
        for digest, user in self._known:
            if hmac.compare_digest(digest, given):
                found = user
        return found


def _digest(token: str) -> bytes:
    # Headers may hold bytes that are no UTF-8, which aiohttp gives as surrogates.
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _authenticated(user: ClusterUser) -> ClusterUser:
    """The user with the group of all who have been authenticated."""
    if AUTHENTICATED in user.groups:
        return user
    return ClusterUser(user.name, (*user.groups, AUTHENTICATED), user.uid)


def certified_user(certificate: Mapping[str, Any]) -> ClusterUser | None:
    """Whom a client certificate (as `ssl` shows a verified one) names; None if it has no common name."""
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    common = [value for key, value in names if key == "commonName"]
    if not common:
        return None
    return _authenticated(ClusterUser(common[0], tuple(value for key, value in names if key == "organizationName")))


class _AccessSpec(msgspec.Struct, rename="camel"):
    """The part of the specs of all access reviews that is read."""

    user: str = ""
    groups: list[str] = []
    resource_attributes: dict[str, Any] | None = None
    non_resource_attributes: dict[str, Any] | None = None


def review(
    authenticator: ClusterAuthenticator,
    authorizer: RbacAuthorizer,
    user: ClusterUser,
    group: str,
    plural: str,
    body: Object,
) -> Object:
    """The answer to one review that `user` has posted."""
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
    if kind == "SelfSubjectReview":
        answer["status"] = {"userInfo": user.to_info()}
    elif kind == "TokenReview":
        known = authenticator.user_of(str(spec.get("token", "")))
        answer["status"] = (
            {"authenticated": True, "user": known.to_info()} if known else {"user": {}, "error": "invalid bearer token"}
        )
    elif kind == "SelfSubjectRulesReview":
        answer["status"] = authorizer.rules(user, str(spec.get("namespace", "")))
    else:
        answer["status"] = _decision(authorizer, user, kind, group, spec)
    return answer


def _decision(authorizer: RbacAuthorizer, poster: ClusterUser, kind: str, group: str, spec: Object) -> Object:
    try:
        asked = msgspec.convert(spec, _AccessSpec)
    except msgspec.ValidationError as error:
        raise bad_request(f"{kind}: spec: {error}") from None
    errors = FieldErrors()
    if (asked.resource_attributes is None) == (asked.non_resource_attributes is None):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.invalid("spec.resourceAttributes", asked.resource_attributes, why)
    is_own = kind == "SelfSubjectAccessReview"
    if not is_own and not asked.user and not asked.groups:
        errors.invalid("spec.user", asked.user, "at least one of user or group must be specified")
    errors.raise_for(kind, group, "")
    about = poster if is_own else ClusterUser(asked.user, tuple(asked.groups))
    allowed, reason = authorizer.decide(about, _attributes(asked))
    return {"allowed": allowed, "reason": reason} if reason else {"allowed": allowed}


def _attributes(asked: _AccessSpec) -> RbacAttributes:
    if asked.non_resource_attributes is not None:
        given = asked.non_resource_attributes
        return RbacAttributes(verb=str(given.get("verb", "")), path=str(given.get("path", "")))
    given = asked.resource_attributes or {}
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return RbacAttributes(**{name: str(given.get(name, "")) for name in names})
