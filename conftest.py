"""Without PyTorch there is no `numscope.capture` to look for doctests in."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["numscope/capture"]
