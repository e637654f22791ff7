"""Quotas that lend: namespaces have a minimum for sure, up to a maximum if others leave it unused.

`amounts.py` has what pods request as quotas count it; `elastic_quotas.py` the kind ElasticQuota; `usage.py` what each
namespace uses; `capacity_scheduling.py` the plugin; `quota_status.py` what a controller writes into the objects.
"""
