"""The driver of a Kubernetes cluster. Nothing outside this package speaks to one."""
