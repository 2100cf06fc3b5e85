"""The only list of experiments: a new one is a class in a file beside this one, and a line here."""

from __future__ import annotations

from odediscovery.experiments.base import Experiment
from odediscovery.experiments.studies.arithmetic import Division, LargeArithmetic, SimpleArithmetic
from odediscovery.experiments.studies.digits import Digits
from odediscovery.experiments.studies.fsir import FractionalSIR
from odediscovery.experiments.studies.functions import Autoencoder, Extrapolation, SimpleFunctions
from odediscovery.experiments.studies.nalu import Operands, StackedUnits
from odediscovery.experiments.studies.networks import Networks
from odediscovery.experiments.studies.registers import Comparisons, StatusRegisters
from odediscovery.experiments.studies.subset_sums import ProductSweeps, StaticArithmetic
from odediscovery.experiments.studies.surfaces import Expectations, GradientSurface

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
