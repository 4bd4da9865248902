"""Task sets with answers that other programs agree on, as the tests of takt-sim (`anchors.rs`) and takt-analysis (`known_verdicts.rs`) have them."""

import csv
from pathlib import Path

import pytest
import takt_rt as takt

from conftest import ROOT

SETS = ROOT / "crates" / "takt-sim" / "tests" / "data"
VERDICTS = ROOT / "crates" / "takt-analysis" / "tests" / "data"


@pytest.mark.parametrize(
    ("file", "policy", "cpus", "completed", "missed"),
    [("uni10_s1.csv", "edf", 1, 191_952, 0), ("g4_20_s1.csv", "g-edf", 4, 350_561, 58)],
)
def test_simulators_agree(file: str, policy: str, cpus: int, completed: int, missed: int) -> None:
    tasks = takt.load(SETS / file, policy=policy, cpus=cpus).simulate("1000s").tasks
    assert (sum(tasks["completed"]), sum(tasks["missed"])) == (completed, missed)


def test_the_exact_test_of_edf() -> None:
    verdicts = takt.analyze(VERDICTS / "sweep_n10.csv", tests=["edf"]).verdicts["edf"]
    known = (VERDICTS / "sweep_n10.verdicts").read_text().split()
    assert [str(int(verdict == "yes")) for verdict in verdicts] == known
    assert known.count("1") == 548


@pytest.mark.parametrize("name", ["airs_W3.0", "airs_W3.6"])
def test_global_tests_and_placements(name: str) -> None:
    known = list(csv.DictReader(Path(VERDICTS / f"{name}_verdicts.csv").read_text().splitlines()))
    tests = [test for test in known[0] if test not in ("set_id", "gedf_sim")]
    verdicts = takt.analyze(VERDICTS / f"{name}.csv", tests=tests, cpus=4).verdicts
    assert (len(known), len(tests)) == (100, 14)
    for test in tests:
        assert [str(int(verdict == "yes")) for verdict in verdicts[test]] == [row[test] for row in known], test
