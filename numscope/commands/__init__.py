"""The commands that look at results, one module each; `cli` puts them beside its own.

Each parses, wires and prints; what a notebook would want is in the modules that it calls. Nothing
here is imported by anything but `cli`, and nothing heavy is imported before a command runs.
"""
