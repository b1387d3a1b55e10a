"""The files panel: a workload's home through POSIX tools in its own container.

The container is the boundary: who may use this may also open a terminal there. Staying below the
home keeps what is shown tidy, and a link that leads out is named as one.
"""
