"""What the rules for OpenAI Chat Completions and Responses rest on. The kinds of citation are those of `citing`."""

from __future__ import annotations

from .citation_kinds import rule

OPENAI = "docs: developers.openai.com/api/docs/guides/"
CHAT = "docs: platform.openai.com/docs/api-reference/chat/create"
RESPONSES = "docs: platform.openai.com/docs/api-reference/responses/create"
CHAT_PARAMS = "sdk: openai.types.chat.CompletionCreateParams"
RESPONSE_PARAMS = "sdk: openai.types.responses.ResponseCreateParams"

CHAT_COMPLETIONS = {
    "key": rule("a key is sent as a bearer", OPENAI + "error-codes"),
    "no_model": rule("the model exists", OPENAI + "error-codes"),
    "window": rule("the messages fit the window", OPENAI + "conversation-state"),
    "fields": rule("only known fields, of their types", CHAT, CHAT_PARAMS),
    "model": rule("a model is named", CHAT, CHAT_PARAMS),
    "messages": rule("messages are a list of objects", CHAT, CHAT_PARAMS),
    "stream_options": rule("stream_options only while streaming", CHAT, CHAT_PARAMS),
    "two_limits": rule(
        "one limit of tokens",
        CHAT,
        "reported: langchain-ai/langgraph#5943",
    ),
    "temperature": rule("temperature lies between 0 and 2", CHAT, CHAT_PARAMS),
    "stop": rule("at most four stop sequences", CHAT, CHAT_PARAMS, "docs: help.openai.com/en/articles/5072263"),
    "reasoning_limit": rule(
        "reasoning models take max_completion_tokens", OPENAI + "reasoning", CHAT_PARAMS, "reported: IBM/chuk-llm#3"
    ),
    "reasoning_temperature": rule("reasoning models take no temperature", OPENAI + "reasoning"),
    "no_tools": rule("tools are not an empty list", "reported: JetBrains/koog#786"),
    "tools_max": rule("at most 128 tools", "reported: zed-industries/zed#32946"),
    "tools": rule("tools are functions or custom", CHAT, "sdk: openai.types.chat.ChatCompletionToolUnionParam"),
    "name": rule("names have a pattern", CHAT, "sdk: openai.types.shared_params.FunctionDefinition"),
    "parameters": rule("parameters are a JSON Schema of type object", OPENAI + "function-calling"),
    "strict": rule("strict schemas are closed and require all", OPENAI + "structured-outputs"),
    "choice_tools": rule("a choice of tools needs tools", "reported: Upsonic/Upsonic#323"),
    "choice": rule("tool_choice is known", CHAT, "sdk: openai.types.chat.ChatCompletionToolChoiceOptionParam"),
    "format": rule(
        "a format is known and named", OPENAI + "structured-outputs", "sdk: openai.types.ResponseFormatJSONSchema"
    ),
    "json_word": rule("JSON mode is asked for in words", OPENAI + "structured-outputs", CHAT_PARAMS),
    "roles": rule("roles are known", CHAT, "sdk: openai.types.chat.ChatCompletionMessageParam"),
    "unanswered": rule(
        "each call is answered by the messages behind it", OPENAI + "function-calling", "reported: agno-agi/agno#4345"
    ),
    "tool_call_id": rule("results name their call", "sdk: openai.types.chat.ChatCompletionToolMessageParam"),
    "orphan_result": rule(
        "a result has its call before it", OPENAI + "function-calling", "reported: agno-agi/agno#4345"
    ),
    "calls": rule("calls have an id and a type", "sdk: openai.types.chat.ChatCompletionMessageToolCallUnionParam"),
    "call_id_long": rule("ids of calls have at most 40 characters", "reported: vercel/ai#5171"),
    "call_id_unique": rule("ids of calls are unique", "reported: agno-agi/agno#5116"),
    "arguments": rule(
        "arguments are the text of an object",
        OPENAI + "function-calling",
        "ours: the page says JSON; what is not an object is refused here so that a client that sends it is seen",
    ),
    "content": rule("content is text or parts", CHAT, "sdk: openai.types.chat.ChatCompletionMessageParam"),
    "parts": rule(
        "parts are of a kind that the role may use", CHAT, "sdk: openai.types.chat.ChatCompletionContentPartParam"
    ),
    "images": rule("images are addresses or base64 of a supported type", OPENAI + "images-vision"),
}

OPENAI_RESPONSES = {
    "window": rule("the input fits the window", RESPONSES, OPENAI + "conversation-state"),
    "previous": rule("the previous response is stored", OPENAI + "conversation-state"),
    "fields": rule("only known fields, of their types", RESPONSES, RESPONSE_PARAMS),
    "model": rule(
        "a model is named", RESPONSES, "ours: the types make it optional beside a prompt, which this server has none of"
    ),
    "include": rule("include lists names", RESPONSES, "sdk: openai.types.responses.ResponseIncludable"),
    "input": rule("there is input, a text or items", RESPONSES, RESPONSE_PARAMS),
    "output_min": rule("at least 16 output tokens", "reported: earendil-works/pi#6265"),
    "reasoning_temperature": rule("reasoning models take no temperature", OPENAI + "reasoning"),
    "format": rule(
        "a format is named and has its schema",
        OPENAI + "structured-outputs",
        "sdk: openai.types.responses.ResponseFormatTextJSONSchemaConfigParam",
    ),
    "strict": rule("strict schemas are closed and require all", OPENAI + "structured-outputs"),
    "tools": rule("tools have a type and a name", RESPONSES, "sdk: openai.types.responses.ToolParam"),
    "name": rule("names have a pattern", "sdk: openai.types.responses.FunctionToolParam", OPENAI + "function-calling"),
    "parameters": rule("parameters are a JSON Schema of type object", OPENAI + "function-calling"),
    "choice": rule(
        "the chosen tool is among the tools", RESPONSES, "sdk: openai.types.responses.ToolChoiceFunctionParam"
    ),
    "item_id": rule("ids of items begin as the server made them", "reported: jlcodes99/cockpit-tools#2090"),
    "reference": rule("what is referred to is stored", OPENAI + "conversation-state", "reported: vercel/ai#7543"),
    "items": rule("items are of a known type", RESPONSES, "sdk: openai.types.responses.ResponseInputItemParam"),
    "messages": rule("messages have a role and content", "sdk: openai.types.responses.EasyInputMessageParam"),
    "parts": rule("parts are of a kind that the role may use", "sdk: openai.types.responses.ResponseInputContentParam"),
    "call_id": rule(
        "call ids have 1 to 64 characters",
        "sdk: openai.types.responses.ResponseFunctionToolCallParam",
        "reported: openclaw/openclaw#875",
    ),
    "arguments": rule(
        "arguments are the text of an object",
        "sdk: openai.types.responses.ResponseFunctionToolCallParam",
        "ours: the types say JSON; what is not an object is refused here so that a client that sends it is seen",
    ),
    "calls": rule("custom calls have their input", "sdk: openai.types.responses.ResponseCustomToolCallParam"),
    "outputs": rule(
        "outputs name their call and hold text or parts",
        "sdk: openai.types.responses.ResponseInputItemParam",
        OPENAI + "function-calling",
    ),
    "reasoning": rule("reasoning has a summary", "sdk: openai.types.responses.ResponseReasoningItemParam"),
    "encrypted": rule("encrypted reasoning comes back unchanged", OPENAI + "reasoning", "reported: openai/codex#8128"),
    "not_stored": rule("reasoning is stored or encrypted", OPENAI + "reasoning", "reported: vercel/ai#7543"),
    "call_id_unique": rule("call ids are unique", "reported: vercel/ai#13307"),
    "orphan_output": rule(
        "an output has its call before it", OPENAI + "function-calling", "reported: continuedev/continue#10092"
    ),
    "unanswered": rule("each call has its output", OPENAI + "function-calling", "reported: continuedev/continue#10092"),
    "reasoning_before": rule(
        "a call comes with its reasoning", OPENAI + "reasoning", "reported: 0xPlaygrounds/rig#751"
    ),
    "reasoning_after": rule(
        "reasoning comes with what it led to",
        OPENAI + "reasoning",
        "reported: community.openai.com/t/how-to-use-reasoning-encrypted-content-with-store-false-stateless/1286934",
    ),
}
