"""Programs that run next to the data, as the tenant: copying, and the file browser's server.

They know neither Django nor the portal's database and import nothing else of Berth, so that an
image of them is small and what a tenant's process can read holds nothing of the portal.
"""
