"""Makes dumps inside a PyTorch training run: what chosen modules see and get back on chosen steps.

This is the only part of numscope that knows PyTorch. Nothing in it may stop a training run.
"""

try:
    from numscope.capture.capturing import Capture
    from numscope.capture.session import CaptureWarning
except ImportError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "numscope.capture needs PyTorch 2.6 or later: pip install 'numscope[capture]'", name="torch"
    ) from error

__all__ = ["Capture", "CaptureWarning"]
