"""Rules, as the command line has them."""

from __future__ import annotations

import re
import subprocess

import pytest
import samples
from isomer_check import Rule, UsageError
from isomer_check.rules import CHOICES, KEYS, LIMITS


@pytest.mark.parametrize(
    "text",
    ["max_drop=3.0,of=length", "max_drop_percent=5.0,of=translation(fr),dataset=STSBenchmark,basis=signed-rank", "min_score=70.0,of=original,name=a b,unit=item,max_shared=1.0"],
)
def test_a_rule_is_the_same_as_text_and_as_fields(text: str) -> None:
    assert str(Rule.parse(text)) == text


def test_a_rule_as_a_message_has_every_field() -> None:
    message = Rule.parse("margin=1,of=original,task=sts,dataset=d,basis=student,unit=group,texts=changed,max_unchanged=0.1,max_near_copies=0.2,max_cut=0.3,max_shared=0.4,min_accepted=0.5,max_guarded=0.6,name=n").message()
    assert {field.name for field, _ in message.ListFields()} == {field.name for field in message.DESCRIPTOR.fields} - set(LIMITS) | {"margin"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("maxdrop=3", "did you mean `max_drop`?"),
        ("max_drop=three", "`max_drop` should be a number, is `three`"),
        ("max_drop=nan", "should be a number"),
        ("max_drop=1_0", "should be a number"),
        ("max_drop=٣", "should be a number"),
        ("of=length", "names no limit"),
        ("", "names no limit"),
        ("max_drop=3,margin=1", "second limit"),
        ("max_drop=3,max_drop=5", "there twice"),
        ("max_drop 3", "KEY=VALUE"),
        ("max_drop=3,of=", "no value"),
        ("max_drop=3,basis=pont", "unknown basis `pont`"),
        ("max_drop=3,of=a;max_drop=100", "without commas, semicolons"),
        ("max_drop=3,of=a\nb", "without commas, semicolons and line breaks"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        Rule.parse(text)
    assert told in str(refused.value) and refused.value.exit_code == 2


def test_keys_and_choices_are_those_of_the_command() -> None:
    """Each key and choice of ours is accepted by the command, and its help names no other key."""
    help_text = subprocess.run([samples.binary(), "check", "--help"], capture_output=True, text=True, check=True).stdout
    told = re.sub(r"\s+", " ", help_text[help_text.index("--rule <") : help_text.index("--no-suite-rules")])
    found = re.search(r"One limit \(([^)]*)\), then (.*?) as in a suite", told)
    assert found and tuple(re.split(r", ", f"{found[1]}, {found[2]}")) != () and set(re.split(r", ", f"{found[1]}, {found[2]}")) == set(KEYS)
    every = [f"max_drop=1,{key}={value}" for key, values in CHOICES.items() for value in values]
    every += [f"{key}=1" if key in LIMITS else f"max_drop=1,{key}=1" for key in KEYS if key not in CHOICES]
    command = [samples.binary(), "check", *(f"--rule={Rule.parse(text)}" for text in every)]
    # What follows is refused only if each rule before it was read.
    done = subprocess.run([*command, "--rule=nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "`nonsense` is not a KEY=VALUE" in done.stderr, done.stderr
