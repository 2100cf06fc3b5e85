"""The only list of experiments: a new one is one file and one line here."""

from __future__ import annotations

from odediscovery.errors import unknown_name
from odediscovery.experiments.base import Experiment
from odediscovery.experiments.seminar.autoencoder import Autoencoder
from odediscovery.experiments.seminar.expectations import Expectations
from odediscovery.experiments.seminar.product_sweeps import ProductSweeps
from odediscovery.experiments.seminar.simple_functions import SimpleFunctions
from odediscovery.experiments.seminar.stacked_units import StackedUnits
from odediscovery.experiments.seminar.status_registers import StatusRegisters
from odediscovery.experiments.studies.comparisons import Comparisons
from odediscovery.experiments.studies.digits import Digits
from odediscovery.experiments.studies.division import Division
from odediscovery.experiments.studies.extrapolation import Extrapolation
from odediscovery.experiments.studies.fsir_study import FractionalSIR
from odediscovery.experiments.studies.gradient_surface import GradientSurface
from odediscovery.experiments.studies.large_arithmetic import LargeArithmetic
from odediscovery.experiments.studies.networks import Networks
from odediscovery.experiments.studies.operands import Operands
from odediscovery.experiments.studies.simple_arithmetic import SimpleArithmetic
from odediscovery.experiments.studies.static_arithmetic import StaticArithmetic

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        FractionalSIR(),
        Networks(),
        GradientSurface(),
        SimpleArithmetic(),
        LargeArithmetic(),
        StaticArithmetic(),
        Division(),
        Extrapolation(),
        Operands(),
        Comparisons(),
        Digits(),
        SimpleFunctions(),
        Autoencoder(),
        StackedUnits(),
        ProductSweeps(),
        StatusRegisters(),
        Expectations(),
    )
}


def get_experiment(name: str) -> Experiment:
    """The experiment of a name.

    Raises:
        InputError: there is none, with the nearest that there is.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]
