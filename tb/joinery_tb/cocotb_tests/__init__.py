"""cocotb tests of generated tops. They run inside a simulator, through ``runner.run_cocotb``."""
