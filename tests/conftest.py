"""Settings that hold for every test: several host devices, no display. JAX reads them when it first starts."""

import os

DEVICES = "--xla_force_host_platform_device_count"

if DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}=4".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_LEGACY_PRNG_KEY", "error")  # keys are typed: jax.random.key, never a raw array
os.environ["MPLBACKEND"] = "Agg"
