"""Pictures of a result."""

from odediscovery.plots.figures import fit_figure, pareto_figure, save_figures, weights_figure

__all__ = ["fit_figure", "pareto_figure", "save_figures", "weights_figure"]
