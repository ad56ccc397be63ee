"""Settings that hold for every test: several host devices, no display. JAX reads them when it first starts."""

import atexit
import os
import shutil
import tempfile

DEVICES = "--xla_force_host_platform_device_count"

if DEVICES not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICES}=4".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_LEGACY_PRNG_KEY", "error")  # keys are typed: jax.random.key, never a raw array
os.environ["MPLBACKEND"] = "Agg"
if "EMULAX_CACHE" not in os.environ:
    # one folder of executables for this run and all processes that it starts, in place of the user's
    os.environ["EMULAX_CACHE"] = tempfile.mkdtemp(prefix="emulax-tests-")
    atexit.register(shutil.rmtree, os.environ["EMULAX_CACHE"], ignore_errors=True)
