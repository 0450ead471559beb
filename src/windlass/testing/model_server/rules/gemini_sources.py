"""What the rules for Gemini generateContent rest on. The kinds of citation are those of `citing`."""

from __future__ import annotations

from .citation_kinds import rule

GEMINI = "docs: ai.google.dev/"

GENERATE_CONTENT = {
    "key": rule("a key is sent in x-goog-api-key or key", GEMINI + "gemini-api/docs/api-key"),
    "no_model": rule("the model exists", GEMINI + "gemini-api/docs/troubleshooting"),
    "window": rule("the contents fit the window", GEMINI + "gemini-api/docs/tokens"),
    "fields": rule(
        "only known fields, of their types",
        GEMINI + "api/generate-content",
        GEMINI + "api/caching",
        "sdk: google.genai.types.Part",
    ),
    "contents": rule("contents are a list of objects", GEMINI + "api/generate-content"),
    "system": rule("the system instruction is text", GEMINI + "api/caching", "reported: songquanpeng/one-api#2243"),
    "tools": rule("tools hold declarations", GEMINI + "api/caching", "sdk: google.genai.types.FunctionDeclaration"),
    "name": rule(
        "function names have a pattern",
        GEMINI + "api/caching",
        "sdk: google.genai.types.FunctionDeclaration",
        "reported: kaitranntt/ccs#25",
    ),
    "names_unique": rule("function names are unique", "reported: rikkahub/rikkahub#1311"),
    "two_schemas": rule("one schema for parameters", "sdk: google.genai.types.FunctionDeclaration"),
    "schema": rule(
        "parameters use the API's own subset of schemas",
        GEMINI + "api/caching",
        "sdk: google.genai.types.Schema",
        "reported: zed-extensions/mcp-server-brave-search#12",
    ),
    "empty_properties": rule("an object has properties", "reported: agno-agi/agno#2112"),
    "array_items": rule("an array has items", GEMINI + "api/caching", "sdk: google.genai.types.Schema"),
    "mode": rule("the mode is known", GEMINI + "api/caching", "sdk: google.genai.types.FunctionCallingConfigMode"),
    "allowed": rule(
        "allowed names only where calls are forced, and declared",
        GEMINI + "api/caching",
        "sdk: google.genai.types.FunctionCallingConfig",
    ),
    "any_needs_tools": rule(
        "forced calls need declarations",
        "ours: the page describes the mode with declarations only; forcing a call of none is refused to be seen",
    ),
    "response_type": rule(
        "a response schema needs application/json",
        GEMINI + "api/generate-content",
        "sdk: google.genai.types.GenerateContentConfig",
    ),
    "temperature": rule("temperature lies between 0 and 2", GEMINI + "api/generate-content"),
    "roles": rule("roles are user and model", "sdk: google.genai.types.Content", "reported: songquanpeng/one-api#1385"),
    "parts": rule("contents have parts", GEMINI + "api/caching", "reported: vercel/ai#3775"),
    "one_of": rule("a part holds one thing", GEMINI + "api/caching", "reported: genkit-ai/genkit#3816"),
    "call_role": rule("calls are the model's", GEMINI + "gemini-api/docs/function-calling"),
    "call": rule("calls have a name and an object", "sdk: google.genai.types.FunctionCall"),
    "response_role": rule("responses are the user's", GEMINI + "gemini-api/docs/function-calling"),
    "response": rule("responses have a name and an object", "sdk: google.genai.types.FunctionResponse"),
    "media": rule(
        "media are base64 of a supported type",
        GEMINI + "gemini-api/docs/image-understanding",
        GEMINI + "gemini-api/docs/document-processing",
        "sdk: google.genai.types.Blob",
    ),
    "turns": rule(
        "calls and responses follow one another",
        "reported: google-gemini/gemini-cli#26486",
        "reported: langchain-ai/langchain#27799",
    ),
    "call_id_unique": rule(
        "ids of calls are unique", "ours: responses are matched by id, so that two calls of one id cannot be told apart"
    ),
    "last_turn": rule("the last turn is not the model's", "reported: crewAIInc/crewAI#6973"),
    "pairs": rule("as many responses as calls", "reported: google-gemini/gemini-cli#14590"),
    "pairs_match": rule(
        "responses name the calls they answer",
        GEMINI + "gemini-api/docs/function-calling",
        "sdk: google.genai.types.FunctionResponse",
    ),
    "signature": rule(
        "calls of the current turn carry their signature",
        GEMINI + "gemini-api/docs/thought-signatures",
        "reported: langgenius/dify-official-plugins#2088",
    ),
    "signature_changed": rule(
        "signatures come back unchanged",
        GEMINI + "gemini-api/docs/thought-signatures",
        "reported: iOfficeAI/gemini-cli-pro#18",
    ),
}
