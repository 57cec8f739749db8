"""Random orders of turns are spread evenly over scripts."""

from live_eval.analysis.statistics.sampling import spread_over_scripts

SCRIPTS = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "c2": "c"}


def test_every_round_has_one_turn_of_each_script() -> None:
    order = spread_over_scripts(SCRIPTS, seed=3)
    assert sorted(order) == sorted(SCRIPTS)
    assert [{SCRIPTS[turn] for turn in part} for part in (order[:3], order[3:5], order[5:])] == [
        {"a", "b", "c"},
        {"a", "c"},
        {"a"},
    ]


def test_the_seed_decides_the_order() -> None:
    assert spread_over_scripts(SCRIPTS, seed=3) == spread_over_scripts(SCRIPTS, seed=3)
    assert len({tuple(spread_over_scripts(SCRIPTS, seed=seed)) for seed in range(20)}) > 1
    assert spread_over_scripts({}, seed=0) == []
