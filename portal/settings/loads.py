"""Settings of loads: how many run, how large they are, and which stores an operator opens."""

from portal.settings.env import number, text, words

# How many loads of one project run at once; the others wait in its line.
BERTH_LOADS_PER_PROJECT = number("LOADS_PER_PROJECT")
# What one load asks of a machine and takes of its project's limits.
BERTH_LOAD_CPU_MILLI = number("LOAD_CPU_MILLI")
BERTH_LOAD_MEMORY_MIB = number("LOAD_MEMORY_MIB")
# How often a load that was cut off (killed, its machine gone) goes on by itself.
BERTH_LOAD_RETRIES = number("LOAD_RETRIES")
# The shortest time between two scheduled runs of one load.
BERTH_LOAD_SCHEDULE_MINUTES = number("LOAD_SCHEDULE_MINUTES")
# Stores (host:port) that speak plain HTTP; without this list every store must speak TLS.
BERTH_INSECURE_STORES = words("INSECURE_STORES")
# In place of Google's own addresses, for trials; never part of what a person pastes.
BERTH_GCS_ENDPOINT = text("GCS_ENDPOINT")
BERTH_GCS_TOKEN_URI = text("GCS_TOKEN_URI")
