"""The demonstration (``make demo``): made-up people at work on simulated GPUs."""
