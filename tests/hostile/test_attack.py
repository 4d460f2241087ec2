"""The short part of the campaign of attack.py; the long one is `make attack`."""

import attack
import pytest
from conftest import quick

SEEDS = 1
ATTACKS = [
    name for name in attack.ATTACKS if name not in ("kills", "full-disks", "killed-runs")
]  # other tests have these
QUICK = ["kineto-values", "sqlite-cells", "snapshot-values", "companions"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> list[attack.Outcome]:
    """In another process: each attack is a fork, which takes no threads along, and here are some."""
    return attack.campaign(
        ATTACKS if pytestconfig.getoption("--long") else QUICK,
        minutes=60,
        keep=tmp_path_factory.mktemp("broken"),
        stop=SEEDS,
    )


@pytest.mark.parametrize("name", quick(len(QUICK), sorted(ATTACKS, key=lambda name: name not in QUICK)))
@pytest.mark.slow
def test_what_is_read_agrees_with_plain_python_or_one_line_refuses_it(
    name: str, outcomes: list[attack.Outcome]
) -> None:
    of_this = [outcome for outcome in outcomes if outcome.name == name]
    assert [(o.seed, o.verdict) for o in of_this if not o.is_fine] == []
    assert len(of_this) == SEEDS


def test_a_table_counts_how_attacks_ended() -> None:
    ended = [
        attack.Outcome("kills", seed, verdict, 100, 1) for seed, verdict in enumerate(["read", "refused", "broke"])
    ]
    assert attack.table(ended).splitlines()[-1] == "| all | 3 | 1 | 1 | 1 | 100 | 1.0 |"
