"""Test the check of commit messages by the hook ``commit-msg``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.commit_message import faults, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "docs: describe the planner\n\nThe page was too long.\n",
        "kernels/cpu: speed up products\n\nA tile was too small.\n",
        "tests: embed a picture\n\nIt was fetched.\n# Please enter the commit message\n",
        "Merge branch 'planner'\n",
        "fixup! docs: describe the planner\n",
    ],
)
def test_good_messages(message):
    assert list(faults(message)) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("docs: describe the planner\n", "the body is empty"),
        ("docs: describe the planner\n\n# a comment\n", "the body is empty"),
        ("docs: describe the planner\nIt was long.\n", "the second line is not blank"),
        ("Describe the planner\n\nIt was long.\n", "the form 'area: imperative'"),
        ("docs: described the planner\n\nIt was long.\n", "'described' is no imperative"),
        ("docs: adds the planner\n\nIt was long.\n", "'adds' is no imperative"),
        ("docs: describe the planner.\n\nIt was long.\n", "ends with a full stop"),
        (f"docs: {'x' * 55}\n\nIt was long.\n", "has 61 characters"),
    ],
)
def test_bad_messages(message, fault):
    (found,) = faults(message)
    assert fault in found


def test_the_hook_reads_the_file_of_git(tmp_path, capsys):
    path = tmp_path / "COMMIT_EDITMSG"
    path.write_text("docs: describe the planner\n\nThe page was too long.\n")
    assert main([str(path)]) == 0
    path.write_text("planner\n\nThe page was too long.\n")
    assert main([str(path)]) == 1
    assert "commit message: the subject is not of the form" in capsys.readouterr().err


def test_the_hook_is_configured():
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert "default_install_hook_types: [pre-commit, commit-msg, pre-push]" in text
    assert "entry: python -m tools.commit_message" in text
    assert "stages: [commit-msg]" in text
