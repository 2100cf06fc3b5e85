"""Functions of states, and products of powers with sin and cos of a state among the factors."""

from __future__ import annotations

from odediscovery.families.base import Family, StateFunction, products

SIN = StateFunction(
    "sin", "the sine of", lambda lib, z: lib.cos(z), exponents=(1.0, 2.0, -1.0), exponents_of_three=(1.0, -1.0)
)
COS = StateFunction(
    "cos", "the cosine of", lambda lib, z: -lib.sin(z), exponents=(1.0, 2.0, -1.0), exponents_of_three=(1.0, -1.0)
)
EXP = StateFunction(
    "exp",
    "the exponential of",
    lambda lib, z: lib.exp(z),
    power_is_rate=True,
    in_user_units=False,
    bounds=(-float("inf"), 200.0),
)
LOG = StateFunction("log", "the logarithm of", lambda lib, z: 1.0 / z, positive=True, bounds=(1e-30, float("inf")))
ABS = StateFunction("Abs", "the size of", lambda lib, z: lib.sign(z), of_signs=True, apply=lambda lib, z: abs(z))
EXP_INVERSE = StateFunction(
    "exp_inverse",
    "the exponential of the inverse of",
    lambda lib, z: -lib.exp(1.0 / z) / z**2,
    positive=True,
    power_is_rate=True,
    in_user_units=False,
    least=0.005,
    bounds=(0.005, float("inf")),
    apply=lambda lib, z: lib.exp(1.0 / z),
    of_inverse=True,
)
TRIGONOMETRIC = Family(
    name="trigonometric",
    says="sums of products with sin and cos of a state among the factors",
    chain="Functions -> NPU -> NAU",
    richness=2,
    # Sines of an amount fit any smooth curve: a quotient is the more likely law.
    richness_of_amounts=3.5,
    candidates=products,
    functions=(SIN, COS),
)
