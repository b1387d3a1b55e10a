"""Pure functions from what is wanted to Kubernetes objects; golden-tested."""
