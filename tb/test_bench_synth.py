"""``joinery bench synth`` and ``timing``: which designs there are, and what is said of them."""

import re
from dataclasses import replace

import pytest
from amaranth.hdl import Fragment

from joinery_cli.bench_synth import SERIES, TIMED, bench_synth, bench_timing
from joinery_gen.engines import ENGINES
from joinery_gen.query import JoineryError
from joinery_synth.resources import Resources


def test_every_engine_is_there_at_two_sizes() -> None:
    assert {re.split(" ", name)[0] for name in SERIES} == {*ENGINES, "fjoin_paper"}
    for series in SERIES.values():
        small, large = series.sizes
        assert small < large
        assert Fragment.get(series.make(small), None).subfragments


def test_slope_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    def synthesize(cores: int, target: str, hierarchy: bool) -> Resources:
        used = {"lut": 100 + 30.5 * cores, "ff": 7 * cores, "bram": 2, "dsp": 0, "carry": 1}
        return Resources(target, used, [], {}, hierarchy, "Yosys 0.70")

    monkeypatch.setattr("joinery_cli.bench_synth.synthesize", synthesize)
    tree = replace(SERIES["handshake tree"], make=int)
    monkeypatch.setitem(SERIES, "handshake tree", tree)
    four, eight = bench_synth("handshake tree", "xc7")
    assert (four["size"], four["lut"], eight["lut"]) == ("4 cores", 222, 344)
    assert (four["lut_per_unit"], four["ff_per_unit"], four["bram_per_unit"]) == (30.5, 7, 0)
    assert (four["paper_lut"], eight["paper_lut"]) == (5281, 9281)
    assert four["paper_lut_per_unit"] == (9281 - 5281) / 4
    assert SERIES["fjoin manhattan"].paper_slope(1) == round((450_000 - 225_000) / 256, 1)
    assert SERIES["panes"].paper_slope(0) is None


def test_names_that_are_not_there() -> None:
    with pytest.raises(JoineryError, match=r"^bench synth: series must be .*, not 'tree'$"):
        bench_synth("tree")
    with pytest.raises(JoineryError, match=r"^bench synth: target must be .*, not 'vup'$"):
        bench_synth("panes", "vup")
    with pytest.raises(JoineryError, match=r"^bench timing: engine must be .*, not 'mlq'$"):
        bench_timing("mlq")
    assert set(TIMED) == {"handshake", "fjoin", "fjoin cluster", "panes", "link"}
