"""Where to compute."""

from __future__ import annotations

from purigraph.errors import InputError


def check_device(device: str) -> str:
    """Raise `InputError` if a device is not available."""
    import torch

    try:
        # The device `meta` has shapes but no values, so it fails here too.
        torch.zeros(1, device=device).add(1).item()
    except NotImplementedError:  # its message lists all backends, over many lines
        reason = "this machine, or this build of PyTorch, does not support it. cpu always works."
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
    else:
        return device
    raise InputError(f"Device {device!r} can't be used here: {reason}")
