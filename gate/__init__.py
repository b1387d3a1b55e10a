"""Streams into running work: terminal, logs, files, SSH. The only way from people to clusters."""
