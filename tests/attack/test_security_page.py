"""SECURITY.md: each sentence of it is shown by tests, here or elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from kern_tools import FaultType, Sandbox

from .driver_attacks import OBJECTS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "SECURITY.md"
SECTIONS = (
    "What is trusted, and what is not",
    "What kern holds",
    "What this layer holds",
    "What neither holds",
)

BOX = "tests/test_box_view.py"
CALLS = "kern_tools/contract_calls.py"
ENDING = "kern_tools/contract_ending.py"
PLACE = "kern_tools/contract_place.py"
WALLS = "kern_tools/contract_walls.py"
FORGED = "tests/attack/test_forged_replies.py"
READ_BACK = "tests/attack/test_replies_read_back.py"
ARGUMENTS = "tests/attack/test_arguments_are_read.py"
RESULTS = "tests/attack/test_results_come_back.py"
VERDICTS = "tests/attack/test_verdicts_hold.py"
OTHERS = "tests/attack/test_other_calls.py"
PLANTED = "tests/attack/test_planted_ways.py"
FLOODS = "tests/attack/test_floods.py"
HERE = "tests/attack/test_security_page.py"
HOSTILE = "tests/test_workspace_hostile.py"
SETUP = "tests/test_setup.py"
PRUNE = "tests/test_prune.py"

TRUST = {
    "Not trusted are the code that a model writes": (
        f"{FORGED}::test_every_forgery_is_read_through_every_adapter",
        f"{ARGUMENTS}::test_anything_is_read_or_refused",
    ),
}
KERN = {
    "It sees no process but its own.": (
        f"{WALLS}::test_only_processes_of_the_box_are_seen",
    ),
    "Its root is read-only, and its scratch": (
        f"{WALLS}::test_only_the_workspace_and_memory_are_writable",
        f"{OTHERS}::test_two_sandboxes_share_nothing_that_can_be_written",
    ),
    "Nothing of the host's environment comes along.": (
        f"{WALLS}::test_nothing_of_the_hosts_environment_comes_along",
    ),
    "It has no capability and no way to gain one.": (
        f"{WALLS}::test_code_has_no_privilege_left",
    ),
    "A system call that only an escape needs": (
        f"{CALLS}::test_a_blocked_system_call_is_escape_blocked",
        f"{HERE}::test_a_system_call_that_programs_do_without_fails",
    ),
    "There is no network unless you give it some": (
        f"{PLACE}::test_the_network_is_off",
        "tests/test_option_effects.py"
        "::test_by_default_the_loopback_of_the_host_is_out_of_reach",
    ),
    "Memory, processes and CPU time are capped": (
        "tests/vm/test_oom.py::test_outgrowing_the_cap_is_oom",
        "tests/vm/test_oom.py::test_the_process_cap_is_an_error_in_the_code",
        "tests/test_option_effects.py::test_a_cpu_cap_is_a_share_of_time_and_no_count",
    ),
}
LAYER = {
    "`oom` and `escape_blocked` are told by the kernel": (
        "tests/vm/test_oom.py::test_kern_itself_says_oom",
        "tests/vm/test_oom.py::test_oom_cannot_be_claimed_by_a_cell",
        f"{CALLS}::test_what_the_code_prints_is_the_code_s",
        f"{VERDICTS}::test_a_deadline_is_told_whatever_the_code_says",
    ),
    "No exit code is a fault": (
        f"{VERDICTS}::test_no_exit_code_is_a_fault",
        f"{VERDICTS}::test_writing_to_every_descriptor_makes_no_fault",
        f"{VERDICTS}::test_descriptors_that_a_cell_sends_are_not_kept",
    ),
    "An attack on the program that runs a cell": (
        f"{VERDICTS}::test_an_attack_on_the_driver_makes_no_fault",
    ),
    "It reaches the model after a first line of ours": (
        f"{READ_BACK}::test_verdict_and_streams_are_read_back",
        f"{READ_BACK}::test_what_is_printed_changes_no_line_of_ours",
        f"{FORGED}::test_every_forgery_is_read_through_every_adapter",
        f"{FORGED}::test_a_forged_reply_stays_one_message_on_the_wire",
    ),
    "Whatever was cut is counted": (
        f"{READ_BACK}::test_what_is_cut_is_counted_and_each_end_is_genuine",
    ),
    "Terminal commands, controls, bidirectional": (
        f"{READ_BACK}::test_what_is_seen_of_a_text_is_what_the_rules_say",
    ),
    "Names of files stay on their line": (
        f"{READ_BACK}::test_names_of_files_are_read_back_in_one_way",
        f"{READ_BACK}::test_a_name_stays_on_its_line",
    ),
    "What a line of ours repeats of the code's errors": (
        f"{READ_BACK}::test_a_hint_names_no_more_than_a_name",
    ),
    "Nothing that a model writes raises": (
        f"{ARGUMENTS}::test_anything_is_read_or_refused",
        f"{ARGUMENTS}::test_no_spelling_changes_what_is_written",
        f"{ARGUMENTS}::test_what_was_not_asked_for_is_refused",
        f"{ARGUMENTS}::test_arguments_that_were_cut_off_change_nothing",
    ),
    "A result comes back the same": (
        f"{RESULTS}::test_json_of_either_spelling_reads_back",
        f"{RESULTS}::test_each_framework_stores_it_unchanged",
        f"{RESULTS}::test_an_answer_of_mcp_gives_it_back",
    ),
    "A cancel and a close end the box": (
        f"{ENDING}::test_a_cancelled_call_is_gone_before_its_caller_hears",
        f"{ENDING}::test_closing_from_another_thread_ends_the_calls",
        f"{ENDING}::test_no_trick_outlives_the_deadline",
        f"{OTHERS}::test_nothing_that_hides_outlives_its_sandbox",
    ),
    "In `resident` and `kernel` mode a deadline ends the call": (
        "tests/test_sharp_edges.py::test_what_a_call_left_behind_outlives_its_deadline",
    ),
    "They cannot write into each other's output": (
        f"{OTHERS}::test_calls_side_by_side_cannot_write_into_each_other",
        f"{OTHERS}::test_what_a_fresh_call_leaves_is_gone_with_it",
        "tests/test_modes.py::test_a_warm_box_serves_one_call",
    ),
    "Sandboxes are apart in every mode": (
        f"{OTHERS}::test_two_sandboxes_share_nothing_that_can_be_written",
        f"{OTHERS}::test_a_cell_cannot_reach_the_workspace_of_another",
        f"{OTHERS}::test_a_cell_cannot_signal_the_host",
    ),
    "In `resident` mode the program that serves": (
        "tests/test_modes.py::test_a_call_cannot_reach_the_resident_driver",
    ),
    "The workspace is the box's to write, so": (
        f"{PLANTED}::test_no_tool_reads_or_writes_through_what_was_planted",
        f"{PLANTED}::test_tools_that_walk_show_regular_files_only",
        f"{PLANTED}::test_names_that_change_under_a_tool_lead_nowhere",
        f"{HOSTILE}::test_a_name_swapped_for_a_link_never_leads_outside",
        f"{HOSTILE}::test_a_directory_swapped_for_a_link_never_leads_outside",
        f"{HOSTILE}::test_no_path_reaches_outside",
    ),
    "Our own folder in the workspace": (
        f"{PLANTED}::test_a_long_output_is_kept_past_what_was_planted",
        "tests/test_spilling.py::test_what_lies_in_place_of_our_directory_is_replaced",
        "tests/test_spilling.py::test_what_lies_in_place_of_the_file_is_replaced",
    ),
    "Exports and snapshots hold regular files": (
        f"{PLANTED}::test_what_was_planted_is_neither_exported_nor_kept",
    ),
    "Mounts that would defeat the box are refused": (
        "tests/test_mounts.py::test_a_place_of_the_table_is_refused",
        "tests/test_mounts.py::test_a_parent_of_a_refused_place_is_refused",
        "tests/test_mounts.py::test_credentials_are_refused_anywhere_in_a_path",
        "tests/test_mounts.py::test_a_rootless_engines_socket_is_refused",
        "tests/test_mounts.py"
        "::test_kerns_state_is_refused_where_it_is_and_where_it_was",
        "tests/test_box_mounts.py::test_no_sandbox_is_made_with_what_would_defeat_it",
    ),
    "They travel by a private file or a socket": (
        "tests/test_secrets.py::test_a_secret_shows_nowhere_but_in_the_box",
        "tests/test_secrets.py::test_the_file_that_carries_it_is_private_and_gone",
        "tests/test_secrets.py::test_errors_about_it_do_not_quote_it",
        "tests/test_config.py::test_no_text_form_shows_a_secret",
        "tests/test_host.py::test_secrets_are_not_shown",
    ),
    "What notebooks and pages show of a box is inert": (
        "tests/test_transcript.py::test_nothing_that_others_wrote_can_act",
        "tests/test_markup.py::test_no_form_of_a_value_makes_a_tag",
        "tests/test_markup.py::test_what_is_no_image_makes_no_image",
        "tests/test_markup.py::test_svg_is_an_image_never_markup",
    ),
    "What a cell sends is bounded": (
        f"{FLOODS}::test_a_flood_of_a_stream_is_counted_and_dropped",
        f"{FLOODS}::test_values_that_go_around_the_driver_are_bounded",
        f"{FLOODS}::test_a_flood_of_files_is_bounded",
        f"{FLOODS}::test_a_flooded_reply_and_its_artifact_are_small",
    ),
}
NEITHER = {
    "A box has the same kernel as the host.": (f"{BOX}::test_the_kernel_is_the_hosts",),
    "kern then runs the box uncapped": (
        "tests/test_host_states.py::test_prompt_and_results_say_whether_limits_bind",
        "tests/test_cli.py::test_caps_that_do_not_bind_are_said_plainly",
    ),
    "`require_limits=True` refuses.": (
        "tests/test_host_states.py"
        "::test_required_limits_are_looked_at_when_the_sandbox_opens",
    ),
    "What is in `env` or in a mount, the code can read": (
        "tests/test_secrets.py::test_an_output_of_the_code_is_not_censored",
        "tests/test_box_mounts.py::test_a_read_only_mount_is_read_and_not_written",
    ),
    "`network=True` is the host's whole network.": (
        "tests/test_egress.py::test_full_network_reaches_the_loopback_of_the_host",
    ),
    "With `egress_allow` code can still send": (
        "tests/test_egress.py::test_the_allowed_domain_is_not_refused",
    ),
    "The box sees the host's core count": (
        "tests/test_option_effects.py::test_a_cpu_cap_is_a_share_of_time_and_no_count",
        f"{BOX}::test_load_and_memory_are_those_of_the_host",
        f"{BOX}::test_the_workspace_shows_the_disk_of_the_host",
    ),
    "Your disk, unless `workspace_max_bytes` is set": (
        f"{BOX}::test_the_workspace_shows_the_disk_of_the_host",
        f"{BOX}::test_a_file_may_be_larger_than_the_memory_cap",
    ),
    "It is watched, so that a fast writer": (
        "tests/test_sharp_edges.py::test_a_fast_writer_passes_the_limit",
    ),
    "Code may print anything, and write": (
        f"{FORGED}::test_every_forgery_is_read_through_every_adapter",
        f"{PLANTED}::test_a_workspace_full_of_everything_is_still_served",
    ),
    "Marks of chat templates": (
        f"{FORGED}::test_marks_of_chat_templates_arrive_as_they_were_written",
    ),
    "Code can accuse itself, and nobody else": (
        f"{VERDICTS}::test_a_signal_of_its_own_accuses_nobody_else",
        f"{HERE}::test_a_process_that_is_not_the_first_can_accuse_itself",
    ),
    "No signal reads as another fault.": (
        f"{VERDICTS}::test_a_signal_of_its_own_accuses_nobody_else",
    ),
    "In `resident` and `kernel` mode what a call left behind": (
        f"{OTHERS}::test_what_a_call_leaves_in_a_kept_box_can_reach_later_ones",
        f"{OTHERS}::test_what_a_call_leaves_in_a_kept_box_can_end_later_ones",
    ),
    "In `kernel` mode all cells are one process": (
        "tests/test_sharp_edges.py::test_a_cell_of_a_kernel_can_fake_a_later_one",
        f"{HERE}::test_a_cell_of_a_kernel_can_answer_for_a_later_command",
    ),
    "`reset` begins anew.": (
        f"{HERE}::test_a_cell_of_a_kernel_can_answer_for_a_later_command",
        f"{OTHERS}::test_what_a_call_leaves_in_a_kept_box_can_reach_later_ones",
    ),
    "Ordinary code is then gone": (
        "tests/test_killed_host.py"
        "::test_code_of_a_killed_host_is_gone_and_the_next_start_is_clean",
        f"{PRUNE}::test_ordinary_code_ends_with_its_host",
    ),
    "Code that has cleared its parent-death signal stays": (
        f"{PRUNE}::test_a_box_that_outlived_its_host_is_ended",
        f"{PRUNE}::test_a_process_that_starts_removes_what_others_left",
    ),
    "Both find it by its box's name": (
        f"{PRUNE}::test_nothing_of_a_living_process_is_touched",
        f"{PRUNE}::test_a_mark_is_only_taken_from_the_dead",
    ),
    "They run as root of a box with the host's network": (
        f"{SETUP}::test_the_setup_has_the_network_of_the_host",
        f"{SETUP}::test_variables_reach_the_setup",
        f"{SETUP}::test_the_hosts_own_settings_of_pip_hold_in_the_setup_alone",
        f"{SETUP}::test_the_setup_sees_only_the_mounts_that_its_line_names",
    ),
    "No call ever has that network.": (f"{SETUP}::test_calls_have_no_network",),
    "What was installed is read-only": (
        f"{SETUP}::test_what_was_installed_cannot_be_changed",
        f"{SETUP}::test_the_second_sandbox_finds_it_installed",
    ),
}
CLAIMS: Mapping[str, tuple[str, ...]] = {**TRUST, **KERN, **LAYER, **NEITHER}
"""What a sentence begins with, to the tests that show it."""

UNSHOWN: Mapping[str, str] = {
    "Trusted are the host": "a definition",
    "kern is the isolation": "a definition",
    "For deliberately hostile code of strangers use": "advice",
    "It shares caches with everything else.": "no test on one machine shows it",
    "What it prints may try to instruct the model": "a model's doing, not ours",
    "The line is yours, but": "a definition",
}
"""What a sentence begins with that no test can show, to the reason."""

_HEADING = re.compile(r"^\*\*[^*]+\.\*\* ")


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", re.sub(r"\s+", " ", text))
    return text.strip()


def sentences() -> Iterator[str]:
    """Give every sentence of the page's sections, without a bold heading of its own.

    A heading that is itself the beginning of the sentence stays, and so does one that
    is all there is.
    """
    page = PAGE.read_text(encoding="utf-8")
    for section in SECTIONS:
        text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for item in re.split(r"\n- ", text)[1:]:
            plain = _plain(item)
            said = _HEADING.sub("", plain).replace("**", "")
            yield from re.split(r"(?<=\.) (?=[A-Z`]|kern )", said)


@cache
def functions(path: str) -> frozenset[str]:
    """Give the names of a file's functions, methods included."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_each_sentence_of_the_page_has_its_tests() -> None:
    """No sentence is there without a test, and none has two places in the list."""
    for sentence in sentences():
        known = [start for start in (*CLAIMS, *UNSHOWN) if sentence.startswith(start)]
        assert len(known) == 1, sentence


def test_each_claim_stands_on_the_page() -> None:
    """A sentence that was changed or removed takes its tests along."""
    page = list(sentences())
    for start in (*CLAIMS, *UNSHOWN):
        assert sum(sentence.startswith(start) for sentence in page) == 1, start


def test_each_test_of_a_claim_exists() -> None:
    """A test that was renamed or removed is missed here."""
    named = {tuple(name.split("::")) for names in CLAIMS.values() for name in names}
    assert {
        (path, name) for path, name in named if name not in functions(path)
    } == set()


def test_the_page_is_made_of_lists() -> None:
    """Every line of a section belongs to one of its bullets."""
    page = PAGE.read_text(encoding="utf-8")
    for section in SECTIONS:
        text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        lines = [line for line in text.splitlines() if line]
        assert lines
        assert all(line.startswith(("- ", "  ")) for line in lines)


# The claims that no other test is about


def test_a_system_call_that_programs_do_without_fails() -> None:
    """`io_uring_setup`, which has this number on every architecture, is not there."""
    code = (
        "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.syscall(425, 1, 0), errno.errorcode[ctypes.get_errno()])"
    )
    with Sandbox(prewarm=0, timeout_s=20) as sandbox:
        result = sandbox.run_code(code)
    assert result.fault is None
    assert result.stdout in ("-1 ENOSYS\n", "-1 EPERM\n")


@pytest.mark.parametrize("mode", ["resident", "kernel"])
def test_a_process_that_is_not_the_first_can_accuse_itself(mode: str) -> None:
    """No wait status says who sent a signal: the code's own reads as the kernel's."""
    with Sandbox(mode=mode, timeout_s=20) as sandbox:
        killed = sandbox.run_code("kill -KILL $$", "sh")
        assert killed.fault_type == FaultType.KILLED
        blocked = sandbox.run_code("kill -SYS $$", "sh")
        assert blocked.fault_type == FaultType.ESCAPE_BLOCKED
        assert sandbox.run_code("print('on')").stdout == "on\n"


def test_a_cell_of_a_kernel_can_answer_for_a_later_command() -> None:
    """The driver is in its hands; a new box has one of its own."""
    fakes = OBJECTS + "driver['run_child'] = lambda: -31"
    with Sandbox(mode="kernel", timeout_s=20) as sandbox:
        sandbox.run_code(fakes)
        assert sandbox.run(["true"]).fault_type == FaultType.ESCAPE_BLOCKED
        sandbox.reset()
        assert sandbox.run(["true"]).success
