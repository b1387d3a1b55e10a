"""Idle holders of GPUs: judged by policy, warned, and parked so that the GPUs come back."""
