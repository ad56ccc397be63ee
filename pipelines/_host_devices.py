"""As many CPU devices as a command asks for, before JAX starts."""

import contextlib

import jax


def request_devices(count: int) -> None:
    """Have JAX start with `count` CPU devices; devices of another kind are as many as there are.

    **Raises:** `ValueError` naming the actual count if JAX has not that many, or has started with fewer.
    """
    with contextlib.suppress(RuntimeError):  # JAX has started: it keeps the devices that it has
        jax.config.update("jax_num_cpu_devices", count)
    available = jax.local_devices()
    if count > len(available):
        raise ValueError(
            f"--devices: expected at most {len(available)}, the number of {available[0].platform} devices that JAX "
            f"has; got {count}"
        )
