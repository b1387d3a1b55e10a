"""The file browser's server: one volume, served next to where it lies, as the tenant.

``python3 -m dataplane.files --root <name> --port <port>``. Only the gate speaks to it, with the
token in ``BERTH_FILES_TOKEN``. Standard library only; a thread for each of at most 64 connections,
because what it waits for are file systems.
"""
