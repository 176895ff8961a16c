"""The version, for whoever keeps it beside results. This module must not import anything."""

__version__ = "0.1.0"
