"""The pytest plugin, by pytests of their own."""

from __future__ import annotations

import pytest
import samples
from samples import MISSING, ROBUST, RULE, STRICT, SUITE, UNCERTAIN, WORSE

ARGUMENTS = f"suite={SUITE!r}, rules=[{RULE!r}]"


@pytest.fixture
def ran(pytester: pytest.Pytester) -> "Ran":
    return Ran(pytester)


class Ran:
    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    def __call__(self, body: str, *options: str) -> pytest.RunResult:
        self.pytester.makepyfile(body)
        return self.pytester.runpytest_inprocess("-p", "isomer_check.plugin", f"--isomer-binary={samples.binary()}", *options)

    def one(self, call: str, *options: str) -> pytest.RunResult:
        return self(f"def test_it(isomer):\n    {call}\n", *options)


def test_a_robust_model_passes(ran: Ran) -> None:
    ran.one(f"isomer.assert_robust({ROBUST!r}, {ARGUMENTS})").assert_outcomes(passed=1)


def test_a_worse_one_fails_with_the_rule_the_drop_and_its_bounds(ran: Ran) -> None:
    result = ran.one(f"isomer.assert_robust({WORSE!r}, {ARGUMENTS})")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"E +isomer_check\.asserting\.NotRobust: the gate failed: .*word_embeddings",
            r'E +.*word_embeddings breaks "stopword_removal drops by at most 5 points" \(max_drop of stopword_removal\): '
            r"drop 2\d\.\d\d points, bounds \d+\.\d\d to \d+\.\d\d \(each at 95 %\), limit 5\.00",
        ]
    )


def test_one_worse_of_two_fails(ran: Ran) -> None:
    result = ran.one(f"isomer.assert_robust([{ROBUST!r}, {WORSE!r}], {ARGUMENTS})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*the gate failed: *word_embeddings"])
    result.stdout.no_fnmatch_line("E*mpnet breaks*")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"isomer.assert_robust({WORSE!r}, {ARGUMENTS})", "E*NotRobust: the gate failed*"),
        (f"isomer.assert_robust({ROBUST!r}, suite={SUITE!r}, rules=['max_dorp=3'])", "E*UsageError: *max_dorp*"),
        (f"isomer.check({MISSING!r}, {ARGUMENTS})", "E*UsageError: *"),
    ],
)
def test_a_failure_shows_the_test_and_no_frame_of_ours(ran: Ran, call: str, message: str) -> None:
    result = ran.one(call)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*isomer_check/*.py*")


def test_undecided_fails_in_words_of_its_own(ran: Ran) -> None:
    result = ran.one(f"isomer.assert_robust({UNCERTAIN!r}, {ARGUMENTS})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*RobustnessUndecided: the gate is undecided, which is neither a pass nor a failure of the encoder*", "E*would decide, if the estimate stays"])
    result.stdout.no_fnmatch_line("*breaks*")


def test_undecided_is_a_warning_where_it_is_told_to(ran: Ran) -> None:
    result = ran.one(f"isomer.assert_robust({UNCERTAIN!r}, {ARGUMENTS}, undecided='warn')")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*UndecidedWarning: the gate is undecided*"])


def test_invalid_fails_in_words_of_its_own(ran: Ran) -> None:
    result = ran.one(f"isomer.assert_robust({WORSE!r}, suite={SUITE!r}, rules=[{STRICT!r}])")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*RobustnessInvalid: the gate is invalid: these scores cannot answer the question*"])


def test_a_missing_model_is_an_error_and_no_assertion(ran: Ran) -> None:
    result = ran(
        f"""
        import pytest
        from isomer_check import UsageError
        def test_it(isomer):
            isomer.assert_robust({MISSING!r}, {ARGUMENTS})
        def test_its_kind(isomer):
            with pytest.raises(UsageError) as error:
                isomer.assert_robust({MISSING!r}, {ARGUMENTS})
            assert not isinstance(error.value, AssertionError)
        """
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E*UsageError: *not_there*"])


@pytest.mark.parametrize("call", [f"isomer.assert_robust({ROBUST!r}, suite={SUITE!r})", f"isomer.assert_robust([], {ARGUMENTS})"])
def test_a_check_that_judges_nothing_is_no_pass(ran: Ran, call: str) -> None:
    result = ran.one(call)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"E +isomer_check\.errors\.(NothingJudged: no rule judged any encoder|UsageError: no model is named)"])


def test_a_test_that_checks_nothing_is_no_pass(ran: Ran) -> None:
    result = ran("def test_it(isomer):\n    pass\n\ndef test_other():\n    pass\n")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*makes no check, so it shows nothing*"])


def test_nothing_collected_is_no_pass(ran: Ran) -> None:
    result = ran(f"def test_it(isomer):\n    isomer.assert_robust({ROBUST!r}, {ARGUMENTS})\n", "-k", "another")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert ran("").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_test_that_is_skipped_or_fails_before_it_checks_says_so(ran: Ran) -> None:
    result = ran("import pytest\ndef test_skipped(isomer):\n    pytest.skip('later')\n\ndef test_failed(isomer):\n    assert 1 == 2\n")
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.no_fnmatch_line("*makes no check*")


def test_reports_are_kept_where_the_option_says(ran: Ran) -> None:
    call = f"isomer.assert_robust({ROBUST!r}, {ARGUMENTS}); isomer.check({ROBUST!r}, {ARGUMENTS})"
    ran.one(call, "--isomer-report=kept").assert_outcomes(passed=1)
    kept = sorted(str(path.relative_to(ran.pytester.path / "kept")) for path in (ran.pytester.path / "kept").glob("*/report.md"))
    assert len(kept) == 2 and kept[0].endswith("-test_it-2/report.md") and kept[1].endswith("-test_it/report.md"), kept


def test_a_gateway_checks_without_the_command(pytester: pytest.Pytester, gateway: str) -> None:
    pytester.makepyfile(f"def test_it(isomer):\n    isomer.assert_robust('mpnet', {ARGUMENTS})\n\ndef test_no(isomer):\n    isomer.assert_robust('word_embeddings', {ARGUMENTS})\n")
    result = pytester.runpytest_inprocess("-p", "isomer_check.plugin", f"--isomer-server={gateway}")
    result.assert_outcomes(passed=1, failed=1)
    both = pytester.runpytest_inprocess("-p", "isomer_check.plugin", f"--isomer-server={gateway}", "--isomer-binary=isomer")
    both.assert_outcomes(errors=2)
    both.stdout.fnmatch_lines(["*--isomer-server and --isomer-binary are both given*"])
