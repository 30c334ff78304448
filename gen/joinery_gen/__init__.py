"""Query text to plan, Verilog, golden result and comparison."""
