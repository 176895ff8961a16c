"""The commands, one module each; `cli` puts them together.

Each parses, wires and prints; what a notebook would want is in the modules that it calls. Nothing
here is imported by anything but `cli`, and nothing heavy is imported before a command runs.
"""
