"""Controllers of the embedded cluster: what turns Deployments and Jobs into pods and cleans up after them."""
