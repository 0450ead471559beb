"""What the rules for Anthropic Messages rest on. The kinds of citation are those of `citing`."""

from __future__ import annotations

from .citation_kinds import rule

CLAUDE = "docs: platform.claude.com/docs/en/"
MESSAGE_PARAMS = "sdk: anthropic.types.MessageCreateParams"

ANTHROPIC = {
    "version": rule("the anthropic-version header is sent", CLAUDE + "api/versioning"),
    "key": rule("a key is sent in x-api-key", CLAUDE + "api/errors"),
    "no_model": rule("the model exists", CLAUDE + "api/errors"),
    "window": rule("the prompt fits the window", CLAUDE + "build-with-claude/context-windows"),
    "fields": rule("only known fields, of their types", CLAUDE + "api/messages", MESSAGE_PARAMS),
    "model": rule("a model is named", CLAUDE + "api/messages", MESSAGE_PARAMS),
    "messages": rule("messages are a list of objects with content", CLAUDE + "api/messages", MESSAGE_PARAMS),
    "max_tokens": rule("max_tokens is given and positive", CLAUDE + "api/messages", MESSAGE_PARAMS),
    "temperature": rule("temperature lies between 0 and 1", CLAUDE + "api/messages"),
    "stop": rule(
        "stop sequences are more than space",
        CLAUDE + "api/messages",
        "reported: BerriAI/litellm#3286",
    ),
    "output": rule("an output format has its schema", CLAUDE + "build-with-claude/structured-outputs"),
    "system": rule("the system prompt is text", CLAUDE + "api/messages", "sdk: anthropic.types.TextBlockParam"),
    "tools": rule("tools are objects, described in text", CLAUDE + "api/messages", "sdk: anthropic.types.ToolParam"),
    "tool_name": rule("tool names have a pattern", CLAUDE + "api/messages", "reported: BerriAI/litellm#26788"),
    "tool_schema": rule(
        "tools have a JSON Schema of type object", CLAUDE + "api/messages", "sdk: anthropic.types.ToolParam"
    ),
    "tool_names_unique": rule("tool names are unique", "reported: docker/docker-agent#2251"),
    "tool_choice": rule("tool_choice is one of four", CLAUDE + "api/messages", "sdk: anthropic.types.ToolChoiceParam"),
    "tool_choice_tools": rule(
        "tool_choice needs the tools it speaks of",
        "ours: the page describes it with tools only; a choice among none is refused so that it is seen",
    ),
    "thinking_forced": rule(
        "no forced tool while thinking",
        CLAUDE + "build-with-claude/extended-thinking",
        "reported: anthropics/claude-code#19414",
        "reported: mastra-ai/mastra#7507",
    ),
    "first_user": rule(
        "the first message is the user's",
        CLAUDE + "api/messages",
        "reported: langchain4j/langchain4j#940",
    ),
    "roles": rule("roles are known", CLAUDE + "api/messages", "sdk: anthropic.types.MessageParam"),
    "trailing_space": rule(
        "a final assistant message does not end in space",
        "reported: tailcallhq/forgecode#1872",
        "reported: crewAIInc/crewAI#4430",
    ),
    "empty_message": rule("messages are not empty", "reported: tghamm/Anthropic.SDK#137"),
    "empty_text": rule("text blocks are not empty", "reported: anthropics/anthropic-sdk-python#461"),
    "blank_text": rule("text blocks hold more than space", "reported: anthropics/claude-code#23440"),
    "unanswered": rule(
        "each call is answered in the next message",
        CLAUDE + "agents-and-tools/tool-use/handle-tool-calls",
        "reported: OpenHands/OpenHands#7512",
    ),
    "answered_twice": rule(
        "each call is answered once",
        CLAUDE + "agents-and-tools/tool-use/handle-tool-calls",
        "reported: anthropics/claude-code#14110",
    ),
    "results_first": rule("results stand first", CLAUDE + "agents-and-tools/tool-use/handle-tool-calls"),
    "orphan_result": rule(
        "a result has its call in the message before",
        CLAUDE + "agents-and-tools/tool-use/handle-tool-calls",
        "reported: JetBrains/koog#232",
    ),
    "call_id_unique": rule("ids of calls are unique", "reported: anthropics/claude-code#21317"),
    "call_id": rule("ids of calls have a pattern", "reported: anomalyco/opencode#1279"),
    "blocks": rule("blocks are of a kind that the role may use", "sdk: anthropic.types.ContentBlockParam"),
    "call": rule("calls have a name and an object as input", "sdk: anthropic.types.ToolUseBlockParam"),
    "media": rule(
        "images and PDFs are of the supported types",
        CLAUDE + "build-with-claude/vision",
        CLAUDE + "build-with-claude/pdf-support",
        "sdk: anthropic.types.Base64ImageSourceParam",
    ),
    "base64": rule("media are base64", CLAUDE + "build-with-claude/vision"),
    "documents": rule("text documents are text/plain", "sdk: anthropic.types.PlainTextSourceParam"),
    "results": rule("results hold text or blocks", "sdk: anthropic.types.ToolResultBlockParam"),
    "failed_result": rule("a failed result is text only", "reported: vellum-ai/vellum-assistant#18387"),
    "thinking_block": rule("thinking has its text and signature", "sdk: anthropic.types.ThinkingBlockParam"),
    "thinking_back": rule(
        "thinking comes back unchanged",
        CLAUDE + "build-with-claude/extended-thinking",
        "reported: code-yeongyu/oh-my-openagent#2775",
    ),
    "thinking": rule("thinking is of a known type", "sdk: anthropic.types.ThinkingConfigParam"),
    "budget": rule(
        "the budget is at least 1024 and below max_tokens",
        CLAUDE + "build-with-claude/extended-thinking",
        "sdk: anthropic.types.ThinkingConfigEnabledParam",
    ),
    "thinking_temperature": rule("no temperature while thinking", CLAUDE + "build-with-claude/extended-thinking"),
    "thinking_prefill": rule("no prefill while thinking", CLAUDE + "build-with-claude/extended-thinking"),
    "thinking_first": rule(
        "a turn that still calls tools opens with its thinking",
        CLAUDE + "build-with-claude/extended-thinking",
        "reported: anomalyco/opencode#3077",
    ),
    "markers": rule(
        "at most four cache markers",
        CLAUDE + "build-with-claude/prompt-caching",
        "reported: tghamm/Anthropic.SDK#50",
    ),
}
