"""Authentication, and the review resources by which clients ask who somebody is and what they may do.

The holder of the server's own token is the administrator, who may do everything. Further identities come from client
certificates that the server's CA has signed (common name and organizations, as kubeadm's are), from tokens that the
operator of the server names, and from those of ServiceAccounts (`account_tokens`). What these may do, the stored RBAC
objects say (`rbac`), and also as whom else they may act. Nobody is anonymous: a request without a credential is 401,
health checks apart, and in reviews `system:anonymous` has what RBAC gives it.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from berth_cluster.apimachinery.errors import FieldErrors, StoreError, bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.account_tokens import ISSUER, AccountTokens, account_user
from berth_cluster.serving.rbac import ClusterUser, RbacAttributes, RbacAuthorizer

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMINISTRATOR = ClusterUser("berth-admin", (MASTERS, AUTHENTICATED), "berth-admin")
ACCOUNT_PREFIX = "system:serviceaccount:"
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

    __slots__ = ("_known", "account_tokens", "token")

    def __init__(
        self, token: str, others: Mapping[str, ClusterUser] | None = None, account_tokens: AccountTokens | None = None
    ) -> None:
        self.token = token
        self.account_tokens = account_tokens
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

    def user_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> ClusterUser | None:
        """Whose a token is; None for one that nobody has, or an account's that is not for these audiences."""
        if not token or len(token) > MAX_TOKEN_CHARACTERS:
            return None
        given, found = _digest(token), None
        for digest, user in self._known:
            if hmac.compare_digest(digest, given):
                found = user
        if found is None and self.account_tokens is not None:
            return self.account_tokens.user_of(token, audiences)
        return found


def _digest(token: str) -> bytes:
    # Headers may hold bytes that are no UTF-8, which aiohttp gives as surrogates.
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _authenticated(user: ClusterUser) -> ClusterUser:
    """The user with the group of all who have been authenticated."""
    if AUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))


def impersonated(
    user: ClusterUser, request: web.BaseRequest, authorize: Callable[[RbacAttributes], None]
) -> ClusterUser:
    """Whom a request acts as (`kubectl --as`): its user, or the one that it names, which `authorize` has to allow."""
    headers = request.headers
    name, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    groups = headers.getall("Impersonate-Group", [])
    extra: dict[str, list[str]] = {}
    for header, value in headers.items():
        if header.lower().startswith("impersonate-extra-"):
            extra.setdefault(unquote(header.lower().removeprefix("impersonate-extra-")), []).append(value)
    if not (name or groups or uid or extra):
        return user
    if not name:
        raise bad_request("requested to impersonate groups, a uid or extra fields without impersonating a user")
    account = name.split(":") if name.startswith(ACCOUNT_PREFIX) else []
    if len(account) == len(("system", "serviceaccount", "namespace", "name")):
        authorize(RbacAttributes("impersonate", "", "serviceaccounts", namespace=account[2], name=account[3]))
        groups = groups or list(account_user(account[2], account[3]).groups)
    else:
        authorize(RbacAttributes("impersonate", "", "users", name=name))
    for group in groups:
        authorize(RbacAttributes("impersonate", "", "groups", name=group))
    if uid:
        authorize(RbacAttributes("impersonate", "authentication.k8s.io", "uids", name=uid))
    for key, values in extra.items():
        for value in values:
            authorize(RbacAttributes("impersonate", "authentication.k8s.io", "userextras", key, name=value))
    acting = ClusterUser(name, tuple(groups), uid, extra)
    return acting if name == "system:anonymous" else _authenticated(acting)


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
        audiences = [str(each) for each in spec.get("audiences") or [ISSUER]]
        token = str(spec.get("token", ""))
        known = authenticator.user_of(token, audiences)
        good_for = [each for each in audiences if authenticator.user_of(token, [each])]
        answer["status"] = (
            {"authenticated": True, "user": known.to_info(), "audiences": good_for}
            if known
            else {"user": {}, "error": "invalid bearer token"}
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
