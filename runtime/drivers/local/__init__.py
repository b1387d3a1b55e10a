"""Workloads as processes of this machine, under a supervisor that outlives the portal.

The supervisor side is standard library only and never imports Django; the client side is
``runtime.drivers.local.driver``. Invariants: ``docs/dev/local-driver.md``.
"""
