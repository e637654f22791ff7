"""Whether a request was sent by somebody else's web page, in the browser of a person who may ask us.

Such a page cannot read the answer, but what is asked would be done. Browsers say where a request comes from, in
`Origin` and in `Sec-Fetch-Site`; programs say neither. A page of this machine on another port is somebody else's, too.
"""

from collections.abc import Mapping

OWN_SITES = ("", "none", "same-origin")
"""What `Sec-Fetch-Site` says of requests that people type, and of those of our own pages."""


def is_sent_by_another_page(headers: Mapping[str, str], own_origin: str) -> bool:
    """Say whether a request does not come from a page of `own_origin`, as in `https://127.0.0.1:10259`.

    The names in `headers` are lower-case, or their case does not matter.
    """
    origin = headers.get("origin")
    if origin is not None and origin.lower() != own_origin.lower():
        return True
    return headers.get("sec-fetch-site", "") not in OWN_SITES


def is_link_followed(headers: Mapping[str, str], method: str) -> bool:
    """Say whether somebody follows a link to here, which is seen and does not happen behind their back."""
    where = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return method in ("GET", "HEAD") and where == ("navigate", "document")
