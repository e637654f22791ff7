"""The transport over HTTP: connections, proxies, the client-side rate limit, retries."""
