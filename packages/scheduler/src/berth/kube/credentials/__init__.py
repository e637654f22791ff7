"""Credentials: from a kubeconfig file, or the pod that we run in, to what a transport sends with each request."""
