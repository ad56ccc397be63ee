"""The problems of the ensemble benchmark: equations that every contender can read, designs, references."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from emulax import data, simulators

POLLUTION_RATES = (
    0.35, 26.6, 1.23e4, 8.6e-4, 8.2e-4, 1.5e4, 1.3e-4, 2.4e4, 1.65e4, 9e3, 0.022, 1.2e4, 1.88, 1.63e4, 4.8e6, 3.5e-4,
    0.0175, 1e8, 4.44e11, 1.24e3, 2.1, 5.78, 0.0474, 1.78e3, 3.12,
)  # fmt: skip
POLLUTION_MEETINGS = (
    (1,), (2, 4), (5, 2), (7,), (7,), (7, 6), (9,), (9, 6), (11, 2), (11, 1), (13,), (10, 2), (14,), (1, 6), (3,), (4,),
    (4,), (16,), (16,), (17, 6), (19,), (19,), (1, 4), (19, 1), (20,),
)  # fmt: skip
POLLUTION_BALANCES = (
    "-1-10-14-23-24+2+3+9+11+12+22+25", "-2-3-9-12+1+21", "-15+1+17+19+22", "-2-16-17-23+15", "-3+4+4+6+7+13+20",
    "-6-8-14-20+3+18+18", "-4-5-6+13", "+4+5+6+7", "-7-8", "-12+7+9", "-9-10+8+11", "+9", "-11+10", "-13+12", "+14",
    "-18-19+16", "-20", "+20", "-21-22-24+23+25", "-25+24",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Problem:
    """One problem.

    - `name`, `title`: in the record and on the figure.
    - `rates`: `f(t, y, p)`, numbers in and numbers out, so that arrays, symbols and compiled code can go through it;
      `None` for a system that is written for arrays only.
    - `simulator`: the same as a simulator of emulax, with its times, parameter space and tolerances.
    - `members`: how many members the work-precision curve is measured with, `scaling`: other numbers of them.
    - `references`: how many members have a reference solution.
    - `stiff`: whether stiff methods are compared.
    - `atol`: absolute over relative tolerance, or absolute tolerance where `fixed_atol`.
    - `rtols`: relative tolerances to measure with, loose first.
    """

    name: str
    title: str
    simulator: Any
    rates: Callable | None
    members: int
    references: int
    stiff: bool
    atol: float
    rtols: tuple[float, ...]
    scaling: tuple[int, ...] = ()
    fixed_atol: bool = False

    @property
    def times(self) -> np.ndarray:
        return np.asarray(self.simulator.times)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.simulator.outputs)

    def tolerances(self, rtol: float) -> tuple[float, float]:
        """Relative and absolute tolerance."""
        return rtol, self.atol if self.fixed_atol else rtol * self.atol

    def design(self, members: int) -> dict[str, np.ndarray]:
        """Parameters of `members` members, rising with the index where there is one parameter: the worst order."""
        space = self.simulator.parameters
        if len(space) == 1 and not next(iter(space.values())).shape:
            name, distribution = next(iter(space.items()))
            return {name: np.asarray(distribution.quantile((np.arange(members) + 0.5) / members))}
        return {name: np.asarray(value) for name, value in data.sample(space, members, seed=1).items()}

    def start(self, design: dict[str, np.ndarray]) -> np.ndarray:
        """Initial states, `(member, unknown)`."""
        rows = range(len(next(iter(design.values()))))
        states = [self.simulator.initial_state({name: value[i] for name, value in design.items()}) for i in rows]
        return np.asarray(states, float)

    def constants(self, design: dict[str, np.ndarray]) -> np.ndarray:
        """Parameters as the rates take them, `(member, parameter)`; none where the state holds them all."""
        scalars = [value for value in design.values() if np.ndim(value) == 1]
        return np.stack(scalars, -1) if scalars else np.zeros((len(next(iter(design.values()))), 1))


def lorenz(t, y, p):
    return 10.0 * (y[1] - y[0]), y[0] * (p[0] - y[2]) - y[1], y[0] * y[1] - (8.0 / 3.0) * y[2]


def van_der_pol(t, y, p):
    return y[1], p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]


def robertson(t, y, p):
    decay, pairing, back = p[0] * y[0], p[1] * y[1] * y[1], p[2] * y[1] * y[2]
    return back - decay, decay - back - pairing, pairing


def _written_pollution() -> Callable:
    """Pollution written out, one expression for each species, so that any language of numbers can run it."""
    lines = []
    for number, (rate, species) in enumerate(zip(POLLUTION_RATES, POLLUTION_MEETINGS, strict=True), 1):
        factor = "p[0]" if number == 1 else repr(rate)
        lines.append(f"    r{number} = " + " * ".join([factor, *(f"y[{i - 1}]" for i in species)]))
    signed = [re.findall(r"([+-])(\d+)", balance) for balance in POLLUTION_BALANCES]
    balances = [" ".join(f"{sign} r{number}" for sign, number in terms).lstrip("+ ") for terms in signed]
    source = "def pollution(t, y, p):\n" + "\n".join(lines) + "\n    return (\n"
    source += "".join(f"        {balance},\n" for balance in balances) + "    )\n"
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["pollution"]


pollution = _written_pollution()


def _simulator(name, rates, start, space, times, outputs, atol, rtol=1e-6) -> Any:
    names = tuple(space)
    return simulators.ODESimulator(
        vector_field=lambda t, y, p: jnp.stack(rates(t, y, [p[name] for name in names])),
        initial_state=lambda p: jnp.asarray(start),
        parameters=space,
        times=times,
        outputs=outputs,
        name=name,
        numerics=simulators.Numerics(rtol=rtol, atol=atol, max_steps=1_000_000),
    )


def problems() -> dict[str, Problem]:
    """All problems by name."""
    hundred = np.linspace(0.0, 1.0, 101)
    rho = data.ParameterSpace(rho=data.Uniform(0.0, 28.0))
    rtols = (1e-4, 1e-6, 1e-8)
    pollution_start = np.zeros(20)
    pollution_start[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007

    def van_der_pol_between(low, high, end):
        space = data.ParameterSpace(mu=data.LogUniform(low, high))
        return _simulator("van_der_pol", van_der_pol, [2.0, 0.0], space, end * hundred, ("x", "v"), 1e-8)

    def lorenz_at(times):
        return _simulator("lorenz", lorenz, [1.0, 1.0, 1.0], rho, times, ("x", "y", "z"), 1e-8)

    rates = data.ParameterSpace(k1=data.Uniform(0.02, 0.08), k2=data.Uniform(1.5e7, 6e7), k3=data.Uniform(0.5e4, 2e4))
    table = (
        Problem(
            "lorenz", "Lorenz, ρ from 0 to 28, t = 10, 100 saves", lorenz_at(10 * hundred), lorenz, 10_000, 64, False,
            1e-2, rtols, scaling=(1_000, 100_000),
        ),
        Problem(
            "lorenz_end", "Lorenz, ρ from 0 to 28, state at t = 10 only", lorenz_at(np.array([0.0, 10.0])), lorenz,
            10_000, 64, False, 1e-2, rtols,
        ),
        Problem(
            "van_der_pol", "Van der Pol, μ from 0.1 to 50, t = 100", van_der_pol_between(0.1, 50.0, 100.0),
            van_der_pol, 2_000, 32, False, 1e-2, rtols, scaling=(10_000, 100_000),
        ),
        Problem(
            "van_der_pol_stiff", "Van der Pol, μ from 50 to 1000, t = 2000",
            van_der_pol_between(50.0, 1000.0, 2000.0), van_der_pol, 256, 16, True, 1e-2, rtols,
            scaling=(1_000, 10_000),
        ),
        Problem(
            "robertson", "Robertson, rates varied, t = 1e5",
            _simulator(
                "robertson", robertson, [1.0, 0.0, 0.0], rates, np.append(0.0, np.geomspace(1e-2, 1e5, 100)),
                ("y1", "y2", "y3"), 1e-12,
            ),
            robertson, 1_000, 32, True, 1e-6, rtols, scaling=(10_000, 100_000),
        ),
        Problem(
            "pollution", "Pollution, 20 unknowns, k1 varied, t = 60",
            _simulator(
                "pollution", pollution, pollution_start, data.ParameterSpace(k1=data.Uniform(0.175, 0.7)),
                60 * hundred, tuple(f"y{i}" for i in range(1, 21)), 1e-10,
            ),
            pollution, 256, 16, True, 1e-4, rtols, scaling=(1_000, 10_000),
        ),
        Problem(
            "burgers", "Burgers by lines, 256 unknowns, t = 1", _burgers(), None, 128, 8, False, 1e-3, rtols,
            scaling=(1_000,),
        ),
        Problem(
            "kuramoto_sivashinsky", "Kuramoto-Sivashinsky, 256 points, t = 30", _kuramoto_sivashinsky(), None, 128, 4,
            True, 1e-3, rtols, scaling=(1_000,),
        ),
    )  # fmt: skip
    return {problem.name: problem for problem in table}


def _burgers() -> Any:
    field = data.GaussianRandomField(points=256, length=1.0, variance=625.0, shift=25.0, exponent=2.0, modes=64)
    return simulators.BurgersLines(
        parameters=data.ParameterSpace(u0=field), numerics=simulators.Numerics(rtol=1e-6, atol=1e-9, max_steps=100_000)
    )


def _kuramoto_sivashinsky() -> Any:
    return simulators.KuramotoSivashinsky(times=np.linspace(0.0, 30.0, 31))
