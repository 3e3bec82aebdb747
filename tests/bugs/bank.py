"""What went wrong in other projects, and what their users asked for.

Each row of `BUGS` is held by tests with its mark, each of `DEMANDS` by the tests that
it names; `test_bank` compares both ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """One kind of fault that others had.

    Attributes:
        what: What went wrong there.
        sources: Where it was reported: `owner/repository#number`, or a URL.
        also: Further tests that hold it, outside of this folder.
    """

    what: str
    sources: tuple[str, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that users asked others for.

    Attributes:
        sources: Where, as in `Bug`.
        tests: What shows that it is met here.
        short: What begins the bullet under "Not met" in the README, for what is not.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...] = ()
    short: str = ""


def url(source: str) -> str:
    """Give the address of a source."""
    if source.startswith("https://"):
        return source
    repository, _, number = source.partition("#")
    return f"https://github.com/{repository}/issues/{number}"


BUGS: Mapping[str, Bug] = {
    "terminal codes": Bug(
        "colour codes reach the model and cost tokens",
        ("cline/cline#13346",),
        ("test_escaping.py::test_no_control_is_left",),
    ),
    "bytes that are no text": Bug(
        "output that is not UTF-8 ends whoever reads it",
        ("microsoft/autogen#1745", "UKGovernmentBEIS/inspect_k8s_sandbox#206"),
    ),
    "fenced code": Bug(
        "a fence around code is a syntax error, or is taken off with those inside",
        ("langchain-ai/langchain#2273", "langchain-ai/langchain#3215"),
        ("test_arguments.py::test_a_safe_repair_is_made_and_stated",),
    ),
    "stripped words": Bug(
        "the word `python` is cut off code that begins with it",
        ("langchain-ai/langchain#20930",),
        ("test_arguments.py::test_python_that_parses_is_never_changed",),
    ),
    "newline escapes": Bug(
        "line breaks are decoded once too often, or once too few",
        ("langchain-ai/langchain-sandbox#60",),
        ("test_arguments.py::test_code_arrives_byte_for_byte",),
    ),
    "nothing shown": Bug(
        "a last expression shows nothing, and the model thinks that it failed",
        ("langchain-ai/langchain#586", "open-webui/open-webui#11755"),
        ("test_rendering.py::test_no_result_is_empty_or_over_the_budget",),
    ),
    "questions": Bug(
        "`input()` hangs the cell",
        ("ipython/ipykernel#400", "langchain-ai/langchain#586"),
    ),
    "output before a timeout": Bug(
        "what was printed before the limit is thrown away",
        (
            "microsoft/autogen#3534",
            "https://github.com/UKGovernmentBEIS/inspect_ai/blob/main/CHANGELOG.md",
        ),
    ),
    "code that outlives its cancellation": Bug(
        "the caller hears of the cancellation while the code acts on",
        ("microsoft/autogen#6013",),
        (
            "adapters/test_langchain.py::"
            "test_cancelling_an_agent_ends_the_box_of_its_call",
            "adapters/test_llama_index.py::"
            "test_cancelling_a_run_ends_the_box_of_its_call",
            "adapters/test_openai.py::test_an_interrupt_ends_the_boxes_of_a_turn",
            "test_coding_tools.py::test_cancelling_a_command_ends_it",
        ),
    ),
    "calls that run again on resume": Bug(
        "resuming a step runs those of its calls again that had ended",
        ("langchain-ai/langgraph#3126",),
        ("test_once.py::test_a_call_under_the_same_id_gives_the_first_reply",),
    ),
    "no final newline": Bug(
        "output without a last line break hides the marker of the end",
        ("langchain-ai/langchain#37854",),
    ),
    "telemetry as the cause": Bug(
        "the last line on stderr passes for the reason of a failure",
        ("vm0-ai/vm0#33161",),
        ("test_rendering.py::test_kerns_own_words_are_never_shown",),
    ),
    "warnings": Bug(
        "any text on stderr means failure, and stdout is dropped",
        ("openbraininstitute/neuroagent#637", "lookatitude/beluga-ai#243"),
    ),
    "exit codes": Bug(
        "a non-zero exit passes for a crash of the tool",
        ("openclaw/openclaw#110153", "MCPJam/inspector#2724"),
    ),
    "lost tracebacks": Bug(
        "the traceback is lost where stderr has text already",
        ("DougTrajano/pydantic-ai-skills#69",),
    ),
    "output before an exception": Bug(
        "what was printed before an exception is dropped",
        ("microsoft/autogen#6572",),
    ),
    "images in tool messages": Bug(
        "images in a tool message are a bad request, or are made up",
        (
            "OpenHands/OpenHands#7700",
            "QwenLM/qwen-code#3616",
            "openai/openai-openapi#523",
        ),
        (
            "adapters/test_openai.py::test_chat_images_follow_in_one_user_message",
            "adapters/test_langchain_images.py::"
            "test_a_chat_model_sees_charts_in_a_user_message",
            "adapters/test_llama_index_openai.py::test_a_chat_model_is_sent_text_alone",
        ),
    ),
    "base64 in text": Bug(
        "an image is flattened to text that nobody sees anything in",
        ("CommandCodeAI/command-code#902", "bytedance/deer-flow#544"),
        ("test_rendering.py::test_no_image_is_ever_text",),
    ),
    "lost charts": Bug(
        "of several charts only the last is kept, or none",
        ("open-webui/open-webui#23847",),
        ("test_values.py::test_images_over_the_number_are_counted",),
    ),
    "windows": Bug(
        "a backend with windows blocks `show`",
        ("unslothai/unsloth#7789",),
    ),
    "schemas that strict mode refuses": Bug(
        "defaults, optional arguments, or tools without any are refused",
        (
            "ComposioHQ/composio#1919",
            "oraios/serena#107",
            "inngest/agent-kit#66",
        ),
        ("test_tools.py::test_a_strict_schema_is_one_that_strict_mode_takes",),
    ),
    "arguments that are no JSON": Bug(
        "raw line breaks, bare code or a made-up name end the agent",
        (
            "langchain-ai/langchain#9130",
            "567-labs/instructor#32",
            "FoundationAgents/MetaGPT#851",
        ),
        (
            "adapters/test_llama_index_openai.py::"
            "test_arguments_that_are_no_json_are_answered",
            "adapters/test_openai_loop_input.py::"
            "test_an_unknown_tool_is_answered_with_what_there_is",
        ),
    ),
    "boundless output": Bug(
        "output, listings and values without a bound, or with one far too small",
        (
            "bytedance/deer-flow#1677",
            "bytedance/deer-flow#1896",
            "QwenLM/Qwen-Agent#794",
        ),
        ("test_rendering.py::test_values_beyond_the_bounds_are_counted",),
    ),
    "NUL and line ends": Bug(
        "a NUL crashes the tool, and line ends are rewritten",
        ("UKGovernmentBEIS/inspect_ai#4659", "langchain-ai/deepagents#2899"),
        ("test_workspace.py::test_what_is_written_is_read_back",),
    ),
    "zombies": Bug(
        "ended processes pile up, and what a dead host left blocks the next run",
        (
            "NousResearch/hermes-agent#6908",
            "openclaw/openclaw#68691",
            "OpenHands/software-agent-sdk#3042",
            "huggingface/smolagents#2050",
        ),
        (
            "test_modes.py::test_orphans_are_reaped",
            "test_prune.py::test_what_a_killed_process_left_is_pruned",
            "test_prune.py::test_a_box_that_outlived_its_host_is_ended",
            "test_soak.py::test_processes_left_behind_are_gone",
        ),
    ),
}
"""What is held, by a name that tests are marked with."""

DEMANDS: Mapping[str, Demand] = {
    "isolation on one's own machine, and for deepagents": Demand(
        ("langchain-ai/deepagents#2882",),
        ("adapters/test_deepagents.py::test_an_agent_works_in_the_sandbox",),
    ),
    "no subscription and no account": Demand(
        ("danny-avila/LibreChat#9443",),
        ("bugs/test_demands.py::test_neither_account_nor_network_is_needed",),
    ),
    "restricted networks": Demand(
        ("simstudioai/sim#1528",),
        (
            "images/test_images.py::test_offline_never_pulls",
            "images/test_images.py::test_offline_takes_what_is_present",
            "images/test_carrying.py::test_an_image_can_be_carried_to_another_machine",
        ),
    ),
    "a broken host is data": Demand(
        ("FlowiseAI/Flowise#5894",),
        (
            "test_host_states.py::test_a_box_that_cannot_start_is_always_a_result",
            "adapters/test_langchain_policy.py::test_a_broken_host_ends_the_agent",
            "adapters/test_llama_index_policy.py::test_a_broken_host_ends_the_agent",
            "adapters/test_openai_loop_ends.py::test_a_broken_host_ends_the_loop",
        ),
    ),
    "saying where it runs": Demand(
        ("e2b-dev/code-interpreter#60", "e2b-dev/code-interpreter#24"),
        ("bugs/test_demands.py::test_it_is_said_where_code_runs",),
    ),
    "a sandbox of one's own behind the API, per tenant and conversation": Demand(
        ("BerriAI/litellm#30891", "BerriAI/litellm#31688"),
        (
            "adapters/test_openai.py::test_responses_calls_are_answered",
            "adapters/test_openai.py::test_the_conversation_tells_the_tenant",
            "test_pool.py::test_one_id_of_two_tenants_is_two_conversations",
            "test_pool.py::test_names_do_not_show_keys",
        ),
    ),
    "output while it runs": Demand(
        ("openai/openai-agents-python#692", "openai/openai-agents-python#1964"),
        (
            "test_streaming.py::test_pieces_come_while_the_call_runs",
            "adapters/test_streaming.py::test_a_graph_tells_while_the_code_runs",
            "adapters/test_streaming.py::test_an_agent_tells_while_the_code_runs",
            "adapters/test_streaming.py::test_an_answer_tells_while_the_code_runs",
        ),
    ),
    "output of long commands, over MCP too": Demand(
        (
            "anthropics/claude-agent-sdk-typescript#343",
            "anthropics/claude-agent-sdk-typescript#213",
        ),
        (
            "test_coding_tools.py::test_what_a_command_writes_can_be_heard",
            "adapters/test_mcp.py::"
            "test_output_and_progress_are_told_while_the_code_runs",
        ),
    ),
    "charts for the model": Demand(
        ("openai/openai-agents-python#360", "openai/openai-agents-python#787"),
        (
            "adapters/test_openai.py::test_responses_images_are_in_the_output",
            "adapters/test_openai_agents.py::test_images_follow_the_text",
        ),
    ),
    "images where the chat model takes them": Demand(
        ("langchain-ai/langchain#31950",),
        (
            "adapters/test_langchain_images.py::"
            "test_a_chat_model_sees_charts_in_a_user_message",
        ),
        "Images for LlamaIndex models behind Chat Completions.",
    ),
    "images for the caller's own code": Demand(
        ("pydantic/pydantic-ai#2391",),
        (
            "test_result_forms.py::test_each_form_of_a_value_has_a_name",
            "test_export.py::test_a_sandbox_exports_what_its_code_made",
        ),
    ),
    "cancellation": Demand(
        ("microsoft/autogen#6013", "microsoft/autogen#6016"),
        ("bugs/test_ending.py::test_a_cancelled_call_does_nothing_more",),
    ),
    "output before the limit": Demand(
        ("microsoft/autogen#3534",),
        ("bugs/test_output.py::test_output_before_a_timeout_is_kept",),
    ),
    "limits that mean what they say": Demand(
        ("vndee/llm-sandbox#43", "vndee/llm-sandbox#100"),
        (
            "bugs/test_demands.py::test_a_limit_is_named_with_its_value",
            "test_pool.py::test_unused_sandboxes_are_closed",
            "adapters/test_openai_loop_ends.py::test_the_time_limit_ends_calls_that_run",
        ),
    ),
    "being told of a lack of memory": Demand(
        ("decocms/studio#6059", "vm0-ai/vm0#3092", "paradigmxyz/centaur#1454"),
        (
            "vm/test_oom.py::test_outgrowing_the_cap_is_oom",
            "test_rendering.py::test_every_fault_has_a_golden_text",
        ),
    ),
    "no second try where memory ran out": Demand(
        ("activepieces/activepieces#14130",),
        ("test_policy.py::test_what_ran_is_never_made_again_unasked",),
    ),
    "a lost sandbox is no output": Demand(
        ("UKGovernmentBEIS/inspect_ai#4709",),
        (
            "bugs/test_outcomes.py::"
            "test_the_cause_is_the_fault_and_no_line_of_the_code",
            "test_host_states.py::test_a_box_that_cannot_start_is_always_a_result",
        ),
    ),
    "images and libraries of one's choice": Demand(
        ("crewAIInc/crewAI#2933",),
        (
            "test_setup.py::test_code_imports_what_was_installed",
            "test_setup.py::test_what_was_installed_cannot_be_changed",
            "test_setup.py::test_a_prompt_names_what_was_installed",
            "images/test_inventory.py::test_what_is_said_of_other_images_is_so",
        ),
    ),
    "no container in a container": Demand(
        ("crewAIInc/crewAI#3028", "crewAIInc/crewAI#4702"),
        ("test_cli.py::test_doctor_fails_where_boxes_do_not_start",),
        "What a container has to allow.",
    ),
    "errors of the setup with cause and remedy": Demand(
        ("crewAIInc/crewAI#3135", "microsoft/autogen#3816"),
        (
            "test_cli.py::test_what_is_missing_comes_with_what_to_do",
            "test_setup.py::test_a_failed_setup_shows_the_installers_own_message",
            "test_config.py::test_a_message_says_what_is_wrong_and_what_to_write",
        ),
    ),
    "files that can be reached": Demand(
        (
            "QwenLM/Qwen3#1614",
            "danny-avila/LibreChat#5054",
            "EtiennePerot/safe-code-execution#4",
        ),
        (
            "bugs/test_demands.py::test_a_file_that_code_made_can_be_reached",
            "test_export.py::test_a_sandbox_exports_what_its_code_made",
        ),
        "The type and a digest of each file.",
    ),
    "a bound on output that can be set": Demand(
        ("QwenLM/Qwen-Agent#794",),
        (
            "test_rendering.py::test_the_budget_holds_and_what_is_cut_is_head_and_tail",
            "test_rendering.py::test_stderr_comes_first_and_leaves_half_to_stdout",
        ),
        "A budget for each of several models that share a sandbox.",
    ),
    "large output in a file": Demand(
        ("BasisResearch/effectful#786", "langchain-ai/deepagents#4230"),
        ("test_tools.py::test_what_was_cut_can_be_read",),
    ),
    "an interpreter for each conversation": Demand(
        ("nex-agi/NexAU#2", "twentyhq/twenty#21664"),
        (
            "test_modes.py::test_a_kernel_keeps_names_whoever_calls",
            "test_modes.py::test_reset_forgets_names_and_keeps_files",
            "test_pool.py::test_conversations_do_not_see_each_other",
            "test_pool.py::test_unused_sandboxes_are_closed",
        ),
    ),
    "a prompt that is true of the sandbox": Demand(
        ("unslothai/unsloth#7242", "open-webui/open-webui#11908"),
        ("prompts/test_in_boxes.py::test_what_is_said_is_so",),
    ),
}
"""What was asked for, and what holds it here."""
