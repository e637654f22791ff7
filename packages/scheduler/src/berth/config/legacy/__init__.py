"""How kube-scheduler was configured up to v1.20: algorithm providers, Policy documents, alpha and beta versions.

All of it is converted to the same internal configuration as today's documents, marked with generation v1.20.
"""
