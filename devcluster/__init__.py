"""A real Kubernetes cluster on this machine, from sources and Debian packages: see README.md."""
