"""A test-only app: one kind of workload, so that the engine is proved without any product app."""
