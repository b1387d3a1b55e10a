"""Copies between an object store and a folder of a volume; knows neither Django nor the portal.

``python3 -m dataplane.copy plan.json`` runs as the tenant. One asyncio loop speaks HTTP on
connections whose peer was checked; a few threads write, hash and settle files. What is done is
in a journal in the volume, so that a run killed at any moment goes on where it was.
See docs/dev/copying.md.
"""
