"""The command line of Berth. Installs alone: click, httpx and PyYAML, no Django."""

__version__ = "0.1.0"
