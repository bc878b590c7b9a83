from purigraph.demo import run_demo


def test_the_demo_runs_from_end_to_end() -> None:
    said: list[str] = []
    result = run_demo(epsilons=(0.25,), purifier_epochs=2, attack_epochs=8, adaptive_epochs=2, say=said.append)
    (one,) = result.budgets
    assert len(said) == 6
    assert one.attacked < result.clean
    assert one.protected_attacked <= one.purified
    assert result.main() is one
    assert one.anchored_attacked >= result.proven
    assert 0 < result.protected_clean <= 1
