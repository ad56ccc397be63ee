"""Initial value problems with known end points, each as a simulator: the registry that the engine's laws run over.

End points without a closed form are the reference solutions of the test set for IVP solvers (Mazzia, Cash and Soetaert,
J. Comput. Appl. Math. 236 (2012) 4119, doi:10.1016/j.cam.2012.03.014), of Hairer, Nørsett and Wanner, Solving Ordinary
Differential Equations I, doi:10.1007/978-3-540-78862-1, or of runs in extended precision.
"""

import dataclasses
import math
import re

import jax.numpy as jnp
import numpy as np

from emulax import data, simulators


@dataclasses.dataclass(frozen=True)
class System:
    """One problem.

    - `simulator`: it; the parameter space is a narrow box around `published`.
    - `published`: the parameters of the known end point.
    - `end`: the state at the last time, one number per output, in their order.
    - `rtol`, `atol`: tolerances to solve it with; `atol` is below every component that counts.
    - `loss`: relative error of a right answer over `rtol`: 100, more where the problem amplifies errors.
    - `floor`: a component of the end point that is smaller is judged as one of this size.
    - `stiff`: whether an explicit method is hopeless.
    - `steps`: a step limit that suits these tolerances.
    """

    simulator: simulators.ODESimulator
    published: dict[str, float]
    end: np.ndarray
    rtol: float = 1e-8
    atol: float = 1e-10
    loss: float = 100.0
    floor: float = 0.0
    stiff: bool = False
    steps: int = 16384

    def design(self, members: int) -> dict[str, np.ndarray]:
        """The published member first, then others drawn from the box around it."""
        drawn = data.sample(self.simulator.parameters, members, method="random", seed=1)
        return {name: np.append(value, drawn[name][1:]) for name, value in self.published.items()}

    def state(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """End points from an ensemble's values, `(member, component)`."""
        return np.stack([values[name][..., -1] for name in self.simulator.outputs], axis=-1)

    def excess(self, state: np.ndarray) -> np.ndarray:
        """Error of an end point over what is allowed, per component: right if none is above 1."""
        size = np.maximum(np.abs(self.end), self.floor)
        return np.abs(state - self.end) / (self.loss * self.rtol * size + self.atol)


def solved_from(start, field, times, end, *, spread: float = 0.02, outputs=None, published=None, **settings) -> System:
    """A `System`: y' = field(t, y, p) from `start`, which is numbers or a function of p; `spread` as `box` has it."""
    published = published or {"k": 1.0}
    simulator = simulators.ODESimulator(
        vector_field=field,
        initial_state=start if callable(start) else lambda p: jnp.asarray(start, float),
        parameters=box(published, spread),
        times=np.asarray(times, np.float64),
        outputs=outputs or tuple(f"y{i}" for i in range(1, len(end) + 1)),
    )
    return System(simulator, published, np.asarray(end, np.float64), **settings)


def ready_made(simulator, end, published: dict[str, float], spread: float = 0.02, **settings) -> System:
    """A `System` of a simulator that the package ships, over a narrower box."""
    return System(simulator.replace(parameters=box(published, spread)), published, np.asarray(end), **settings)


def box(published: dict[str, float], spread: float) -> data.ParameterSpace:
    """Uniform within `spread`, relative, of each published value; all are positive."""
    return data.ParameterSpace(**{k: data.Uniform(v * (1 - spread), v * (1 + spread)) for k, v in published.items()})


def van_der_pol(t, y, p):
    return jnp.stack([y[1], ((1 - y[0] ** 2) * y[1] - y[0]) / p["eps"]])


def hires(t, y, p):
    a, b, c, d, e, f, g, h = y
    bound = p["k"] * f * h
    dg = bound - 1.81 * g
    return jnp.stack([
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * (f + g),
        -bound + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        dg,
        -dg,
    ])  # fmt: skip


def orego(t, y, p):
    a, b, c = y
    return jnp.stack([p["s"] * (b + a * (1 - 8.375e-6 * a - b)), (c - (1 + a) * b) / p["s"], 0.161 * (a - c)])


# reaction i: its rate constant and the species that meet; then, for each species, the reactions that make or take it
POLLUTION_RATES = (
    0.35, 26.6, 1.23e4, 8.6e-4, 8.2e-4, 1.5e4, 1.3e-4, 2.4e4, 1.65e4, 9e3, 0.022, 1.2e4, 1.88, 1.63e4, 4.8e6, 3.5e-4,
    0.0175, 1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12,
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


def pollution(t, y, p):
    balances = POLLUTION_BALANCES
    constants = (p["k1"], *POLLUTION_RATES[1:])
    meetings = zip(constants, POLLUTION_MEETINGS, strict=True)
    rates = [math.prod([y[i - 1] for i in species], start=k) for k, species in meetings]
    return jnp.stack([sum(signed(rates, int(number)) for number in re.findall(r"[+-]\d+", b)) for b in balances])


def signed(rates, number: int):
    return rates[number - 1] if number > 0 else -rates[-number - 1]


def pleiades(t, state, p):
    x, y, vx, vy = state.reshape(4, 7)
    dx, dy = x - x[:, None], y - y[:, None]
    # a body does not pull itself: dx = dy = 0 there, over 1
    pull = p["g"] * jnp.arange(1, 8) / (dx**2 + dy**2 + jnp.eye(7)) ** 1.5
    return jnp.concatenate([vx, vy, (pull * dx).sum(1), (pull * dy).sum(1)])


def arenstorf(t, state, p):
    x, y, vx, vy = state
    moon, earth = p["mu"], 1 - p["mu"]
    to_earth, to_moon = earth / ((x + moon) ** 2 + y**2) ** 1.5, moon / ((x - earth) ** 2 + y**2) ** 1.5
    ax = x + 2 * vy - to_earth * (x + moon) - to_moon * (x - earth)
    return jnp.stack([vx, vy, ax, y - 2 * vx - (to_earth + to_moon) * y])


def brusselator(t, y, p):
    u, v = y
    return jnp.stack([p["a"] + u**2 * v - (p["b"] + 1) * u, p["b"] * u - u**2 * v])


def forced_oscillator(t, y, p):
    return jnp.stack([y[1], jnp.cos(2 * t) - 0.2 * y[1] - p["k"] * y[0]])


def forced_end(t: float, k: float = 1.0) -> tuple[float, float]:
    """x and x' of x'' + 0.2 x' + k x = cos 2t from rest: a forced and a decaying oscillation."""
    amplitude = 1 / complex(k - 4, 0.4)
    rate = complex(-0.1, math.sqrt(k - 0.01))
    steady = amplitude * np.exp(2j * t)
    # real part of c exp(rate t), with c chosen so that x(0) = x'(0) = 0
    real = -amplitude.real
    free = complex(real, (rate.real * real + (2j * amplitude).real) / rate.imag)
    decaying = free * np.exp(rate * t)
    return (steady + decaying).real, (2j * steady + rate * decaying).real


def kepler(t, state, p):
    (x, y), (vx, vy) = state["place"], state["speed"]
    pull = -p["g"] / (x**2 + y**2) ** 1.5
    return {"place": (vx, vy), "speed": (pull * x, pull * y)}


def kepler_start(p):
    """Nearest point of an ellipse of eccentricity 0.5 and half axis 1: the period is 2 π at g = 1."""
    return {"place": (0.5, 0.0), "speed": (0.0, math.sqrt(3.0))}


def ring_modulator(t, y, p):
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o = y  # noqa: E741
    signal, carrier = p["u"] * jnp.sin(2e3 * math.pi * t), 2 * jnp.sin(2e4 * math.pi * t)
    voltages = (c - e - g - carrier, -d + f - g - carrier, d + e + g + carrier, -c - f + g + carrier)
    q1, q2, q3, q4 = (40.67286402e-9 * (jnp.exp(17.7493332 * voltage) - 1) for voltage in voltages)
    return jnp.stack([
        (h - 0.5 * j + 0.5 * k + n - a / 25e3) / 1.6e-8,
        (i - 0.5 * l + 0.5 * m + o - b / 25e3) / 1.6e-8,
        (j - q1 + q4) / 2e-12,
        (-k + q2 - q3) / 2e-12,
        (l + q1 - q3) / 2e-12,
        (-m - q2 + q4) / 2e-12,
        (-g / 50 + q1 + q2 - q3 - q4) / 1e-8,
        -a / 4.45,
        -b / 4.45,
        (0.5 * a - c - 17.3 * j) / 5e-4,
        (-0.5 * a + d - 17.3 * k) / 5e-4,
        (0.5 * b - e - 17.3 * l) / 5e-4,
        (-0.5 * b + f - 17.3 * m) / 5e-4,
        (-a + signal - (50 + 36.3) * n) / 2e-3,
        (-b - (600 + 36.3) * o) / 2e-3,
    ])  # fmt: skip


ARENSTORF_START = (0.994, 0.0, 0.0, -2.00158510637908252240537862224)
POLLUTION_START = np.zeros(20)
POLLUTION_START[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
PLEIADES_START = (
    3, 3, -1, -3, 2, -2, 2,
    3, -3, 2, 0, 0, -4, 4,
    0, 0, 0, 0, 0, 1.75, -1.5,
    0, 0, 0, -1.25, 1, 0, 0,
)  # fmt: skip

SYSTEMS: dict[str, System] = {
    "decay": ready_made(
        simulators.Decay(times=np.linspace(0.0, 2.0, 6)),
        [math.exp(-1)],
        {"k": 0.5, "y0": 1.0},
    ),
    "lotka_volterra": ready_made(
        simulators.LotkaVolterra(times=np.linspace(0.0, 10.0, 6)),
        [1.02634476758, 0.909691078136],
        {"alpha": 1.5, "beta": 1.0, "gamma": 3.0, "delta": 1.0, "u0": 1.0, "v0": 1.0},
    ),
    "brusselator": solved_from(  # Hairer, Nørsett and Wanner, equation (16.12)
        (1.5, 3.0),
        brusselator,
        np.linspace(0.0, 20.0, 6),
        [0.4986370712683478, 4.596780349452011],
        published={"a": 1.0, "b": 3.0},
    ),
    "forced_oscillator": solved_from(
        (0.0, 0.0), forced_oscillator, np.linspace(0.0, 10.0, 6), forced_end(10.0), spread=0.5
    ),
    "kepler": solved_from(
        kepler_start,
        kepler,
        np.linspace(0.0, 2 * math.pi, 6),
        [0.5, 0.0, 0.0, math.sqrt(3.0)],
        published={"g": 1.0},
        outputs=("x", "y", "vx", "vy"),
        floor=1.0,
    ),
    "lorenz": ready_made(  # Taylor series in 60 digits
        simulators.Lorenz(times=np.linspace(0.0, 10.0, 6)),
        [-4.90268754113463573, -3.74387292180291962, 24.6908581027905555],
        {"sigma": 10.0, "rho": 28.0, "beta": 8 / 3},
    ),
    "van_der_pol": ready_made(  # Radau at 1e-12
        simulators.VanDerPol(times=np.linspace(0.0, 20.0, 6)),
        [1.93935853278, -0.0700815057358],
        {"mu": 10.0},
    ),
    "arenstorf": solved_from(
        ARENSTORF_START,
        arenstorf,
        np.linspace(0.0, 17.0652165601579625588917206249, 6),
        ARENSTORF_START,
        published={"mu": 0.012277471},
        spread=1e-4,
        loss=1e4,
        floor=1.0,
    ),
    "pleiades": solved_from(
        PLEIADES_START,
        pleiades,
        np.linspace(0.0, 3.0, 6),
        [
            0.3706139143970502, 3.237284092057233, -3.222559032418324, 0.6597091455775310,
            0.3425581707156584, 1.562172101400631, -0.7003092922212495,
            -3.943437585517392, -3.271380973972550, 5.225081843456543, -2.590612434977470,
            1.198213693392275, -0.2429682344935824, 1.091449240428980,
            3.417003806314313, 1.354584501625501, -2.590065597810775, 2.025053734714242,
            -1.155815100160448, -0.8072988170223021, 0.5952396354208710,
            -3.741244961234010, 0.3773459685750630, 0.9386858869551073, 0.3667922227200571,
            -0.3474046353808490, 2.344915448180937, -1.947020434263292,
        ],
        published={"g": 1.0},
        spread=1e-3,
        loss=200.0,
    ),
    "robertson": ready_made(
        simulators.Robertson(times=np.array([0.0, 0.4, 40.0, 4e3, 4e7, 1e11])),
        [0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050],
        {"k1": 0.04, "k2": 3e7, "k3": 1e4},
        atol=1e-18,
        stiff=True,
    ),
    "hires": solved_from(
        (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057),
        hires,
        np.linspace(0.0, 321.8122, 6),
        [
            0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4, 0.1175651343283149e-2,
            0.2386356198831331e-2, 0.6238968252742796e-2, 0.2849998395185769e-2, 0.2850001604814231e-2,
        ],
        published={"k": 280.0},
        stiff=True,
    ),
    "orego": solved_from(
        (1.0, 2.0, 3.0),
        orego,
        np.linspace(0.0, 360.0, 6),
        [0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3],
        published={"s": 77.27},
        stiff=True,
    ),
    "van_der_pol_stiff": solved_from(
        (2.0, 0.0),
        van_der_pol,
        np.linspace(0.0, 2.0, 6),
        [0.1706167732170483e1, -0.8928097010247975],
        published={"eps": 1e-6},
        stiff=True,
    ),
    "pollution": solved_from(
        POLLUTION_START,
        pollution,
        np.linspace(0.0, 60.0, 6),
        [
            0.5646255480022769e-1, 0.1342484130422339, 0.4139734331099427e-8, 0.5523140207484359e-2,
            0.2018977262302196e-6, 0.1464541863493966e-6, 0.7784249118997964e-1, 0.3245075353396018,
            0.7494013383880406e-2, 0.1622293157301561e-7, 0.1135863833257075e-7, 0.2230505975721359e-2,
            0.2087162882798630e-3, 0.1396921016840158e-4, 0.8964884856898295e-2, 0.4352846369330103e-17,
            0.6899219696263405e-2, 0.1007803037365946e-3, 0.1772146513969984e-5, 0.5682943292316392e-4,
        ],
        published={"k1": 0.35},
        atol=1e-20,
        stiff=True,
    ),
    "ring_modulator": solved_from(
        np.zeros(15),
        ring_modulator,
        np.linspace(0.0, 1e-3, 6),
        [
            -0.2339057358486745e-1, -0.7367485485540825e-2, 0.2582956709291169, -0.4064465721283450,
            -0.4039455665149794, 0.2607966765422943, 0.1106761861269975, 0.2939904342435596e-6,
            -0.2840029933642329e-7, 0.7267198267264553e-3, 0.7929487196960840e-3, -0.7255283495698965e-3,
            -0.7941401968526521e-3, 0.7088495416976114e-4, 0.2390059075236570e-4,
        ],
        published={"u": 0.5},
        rtol=1e-6,
        atol=1e-9,
        loss=1e4,
        stiff=True,
        steps=10**6,
    ),
}  # fmt: skip
