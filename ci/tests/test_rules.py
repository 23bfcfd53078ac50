"""Rules, as the command line has them."""

from __future__ import annotations

import subprocess

import pytest
import samples
from isomer_check import Rule, UsageError


@pytest.mark.parametrize(
    "text",
    ["max_drop=3.0,of=length", "max_drop_percent=5.0,of=translation(fr),dataset=STSBenchmark,basis=signed-rank", "a_newer_rule=70,of=original,name=a b"],
)
def test_a_rule_is_sent_as_it_was_written(text: str) -> None:
    rule = Rule.parse(text)
    assert str(rule) == text and rule.message().text == text
    assert [field.name for field, _ in rule.message().ListFields()] == ["text"]


def test_a_rule_of_keys_is_the_rule_of_its_text() -> None:
    assert str(Rule(max_drop=3, of="length", unit="item")) == "max_drop=3,of=length,unit=item"
    assert Rule(max_drop="3", of="length") == Rule.parse(" max_drop = 3, of=length,")
    assert repr(Rule(max_drop=3.5, of="length")) == "Rule(max_drop=3.5, of='length')"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no limit"),
        ("max_drop=3,max_drop=5", "there twice"),
        ("max_drop 3", "KEY=VALUE"),
        ("max_drop=3,of=", "without commas, semicolons"),
        ("max_drop=3,of=a;max_drop=100", "without commas, semicolons"),
        ("max_drop=3,of=a\nb", "without commas, semicolons and line breaks"),
    ],
)
def test_a_text_that_is_no_list_of_keys_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        Rule.parse(text)
    assert told in str(refused.value) and refused.value.exit_code == 2


@pytest.mark.parametrize("keys", [{"max_drop": float("nan")}, {"max_drop": True}, {"of": "a,max_drop=100"}, {"of": " length"}, {}])
def test_keys_that_cannot_be_written_are_refused(keys: "dict[str, float]") -> None:
    with pytest.raises(UsageError):
        Rule(**keys)


@pytest.mark.parametrize(("text", "told"), [("max_dorp=3", "did you mean `max_drop`?"), ("max_drop=3,basis=pont", "did you mean `point`?"), ("max_drop=1_0", "should be a number")])
def test_the_command_reads_keys_and_values(text: str, told: str) -> None:
    done = subprocess.run([samples.binary(), "check", f"--rule={Rule.parse(text)}"], capture_output=True, text=True)
    assert done.returncode == 2 and told in done.stderr, done.stderr
