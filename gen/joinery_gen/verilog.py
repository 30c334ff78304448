"""A component to Verilog by itself, for benches and measurements of parts of a design."""

from amaranth.lib import wiring

from joinery.units import UnitLibrary

from . import generate

__all__ = ["component_verilog"]


def component_verilog(component: wiring.Component) -> str:
    """Return ``component`` as a module ``top``, with the lint waivers that every design states."""
    waivers = (
        f"/* verilator lint_off {name} */ // {why}" for name, why in generate.LINT_WAIVERS.items()
    )
    return "\n".join([*waivers, "", generate._to_verilog(UnitLibrary().rtlil(component))])
