"""What is known about models, as data: windows, abilities and list prices, dated. It holds no code.

Prices are base rates (no batch, priority or long-context tiers) as a public price table gave them on `PRICES_AS_OF`;
they are for budgets, not for accounting, and any of them can be overridden.
"""

from __future__ import annotations

PRICES_AS_OF = "2026-11-15"

Row = tuple[str, int, int | None, tuple[float, float, float | None, float | None] | None, str]
"""Model id, window (what may be sent), most output, price (input, output, cache read, cache write; dollars per
million), abilities: t tools, i images, d documents, o native structured output, r reasoning."""

MODELS: dict[str, tuple[Row, ...]] = {
    "anthropic": (
        ("claude-fable-5-1", 1_000_000, 128_000, (10, 50, 0.25, 12.5), "tidor"),
        ("claude-opus-5-5", 1_000_000, 128_000, (4, 20, 0.2, 5), "tidor"),
        ("claude-opus-5", 1_000_000, 128_000, (5, 25, 0.5, 6.25), "tidor"),
        ("claude-opus-4-8", 1_000_000, 128_000, (5, 25, 0.5, 6.25), "tidor"),
        ("claude-opus-4-7", 1_000_000, 128_000, (5, 25, 0.5, 6.25), "tidor"),
        ("claude-opus-4-6", 1_000_000, 128_000, (5, 25, 0.5, 6.25), "tidor"),
        ("claude-opus-4-5", 200_000, 64_000, (5, 25, 0.5, 6.25), "tidor"),
        ("claude-sonnet-5-5", 1_000_000, 128_000, (2, 10, 0.1, 2.5), "tidor"),
        ("claude-sonnet-5", 1_000_000, 128_000, (2, 10, 0.2, 2.5), "tidor"),
        ("claude-sonnet-4-6", 1_000_000, 128_000, (3, 15, 0.3, 3.75), "tidor"),
        ("claude-sonnet-4-5", 200_000, 64_000, (3, 15, 0.3, 3.75), "tidor"),
        # The published rate is five times this one for prompts beyond 100,000 tokens.
        ("claude-haiku-5-5", 1_000_000, 128_000, (0.1, 0.5, 0.01, 0.125), "tidor"),
        ("claude-haiku-4-5", 200_000, 64_000, (1, 5, 0.1, 1.25), "tidor"),
    ),
    "openai": (
        ("gpt-6.1-sol", 922_000, 128_000, (2, 10, 0.1, 2.5), "tidor"),
        ("gpt-6-astra", 922_000, 128_000, (10, 50, 1, 12.5), "tidor"),
        ("gpt-6-sol", 922_000, 128_000, (2, 10, 0.2, 2.5), "tidor"),
        ("gpt-6-luna", 922_000, 128_000, (0.1, 0.5, 0.01, 0.125), "tidor"),
        ("gpt-5.6", 922_000, 128_000, (4, 20, 0.4, 5), "tidor"),
        ("gpt-5.5", 922_000, 128_000, (5, 30, 0.5, None), "tidor"),
        ("gpt-5.4", 922_000, 128_000, (2.5, 15, 0.25, None), "tidor"),
        ("gpt-5.4-mini", 272_000, 128_000, (0.75, 4.5, 0.075, None), "tidor"),
        ("gpt-5.4-nano", 272_000, 128_000, (0.2, 1.25, 0.02, None), "tidor"),
        ("gpt-5.2", 272_000, 128_000, (1.75, 14, 0.175, None), "tidor"),
        ("gpt-5.1", 272_000, 128_000, (1.25, 10, 0.125, None), "tidor"),
        ("gpt-5", 272_000, 128_000, (1.25, 10, 0.125, None), "tidor"),
        ("gpt-5-mini", 272_000, 128_000, (0.25, 2, 0.025, None), "tidor"),
        ("gpt-5-nano", 272_000, 128_000, (0.05, 0.4, 0.005, None), "tidor"),
        ("gpt-4.1", 1_047_576, 32_768, (2, 8, 0.5, None), "tido"),
        ("gpt-4.1-mini", 1_047_576, 32_768, (0.4, 1.6, 0.1, None), "tido"),
        ("gpt-4.1-nano", 1_047_576, 32_768, (0.1, 0.4, 0.025, None), "tido"),
        ("gpt-4o", 128_000, 16_384, (2.5, 10, 1.25, None), "tido"),
        ("gpt-4o-mini", 128_000, 16_384, (0.15, 0.6, 0.075, None), "tido"),
        ("o3", 200_000, 100_000, (2, 8, 0.5, None), "tidor"),
        ("o4-mini", 200_000, 100_000, (1.1, 4.4, 0.275, None), "tidor"),
    ),
    "gemini": (
        ("gemini-3.8-flash", 1_048_576, 65_536, (0.75, 3.75, 0.075, None), "tidor"),
        ("gemini-3.5-flash", 1_048_576, 65_536, (1.5, 9, 0.15, None), "tidor"),
        ("gemini-3.5-flash-lite", 1_048_576, 65_536, (0.3, 2.5, 0.03, None), "tidor"),
        ("gemini-3.1-pro-preview", 1_048_576, 65_536, (2, 12, 0.2, None), "tidor"),
        ("gemini-3.1-flash-lite", 1_048_576, 65_536, (0.25, 1.5, 0.025, None), "tidor"),
        ("gemini-2.5-pro", 1_048_576, 65_536, (1.25, 10, 0.125, None), "tidor"),
        ("gemini-2.5-flash", 1_048_576, 65_536, (0.3, 2.5, 0.03, None), "tidor"),
        ("gemini-2.5-flash-lite", 1_048_576, 65_536, (0.1, 0.4, 0.01, None), "tidor"),
    ),
    "openrouter": (("openrouter/auto", 200_000, None, None, "tio"),),
    "deepseek": (
        ("deepseek-v4-flash", 1_000_000, 393_216, (0.3, 1.2, 0.006, None), "tir"),
        ("deepseek-v4-pro", 1_000_000, 393_216, (1.32, 3.96, 0.044, None), "tr"),
        ("deepseek-chat", 131_072, 8_192, (0.28, 0.42, 0.028, None), "t"),
        ("deepseek-reasoner", 131_072, 65_536, (0.28, 0.42, 0.028, None), "r"),
    ),
    "qwen": (
        ("qwen3.8-max", 1_000_000, 131_072, (2, 6, 0.25, None), "tir"),
        ("qwen3.8-flash", 1_000_000, 131_072, (0.15, 0.47, 0.016, 0.2), "tir"),
        ("qwen3.7-max", 1_000_000, 65_536, (2.5, 7.5, 0.5, 3.125), "tr"),
        ("qwen3-max", 262_144, 65_536, None, "tr"),
        ("qwen-plus", 131_072, 16_384, (0.4, 1.2, None, None), "tr"),
    ),
    "moonshot": (
        ("kimi-k3", 1_048_576, 1_048_576, (3, 15, 0.3, None), "tior"),
        ("kimi-k2.6", 262_144, 262_144, (0.95, 4, 0.16, None), "tior"),
        ("kimi-k2.5", 262_144, 262_144, (0.6, 3, 0.1, None), "tior"),
    ),
    "minimax": (
        ("MiniMax-M3", 1_000_000, 128_000, (0.3, 1.2, 0.06, None), "tir"),
        ("MiniMax-M2.5", 1_000_000, 8_192, (0.3, 1.2, 0.03, 0.375), "tr"),
    ),
    "cerebras": (
        ("gpt-oss-120b", 131_072, 32_768, (0.35, 0.75, None, None), "tor"),
        ("llama-3.3-70b", 128_000, None, (0.85, 1.2, None, None), "t"),
    ),
    "groq": (
        ("openai/gpt-oss-120b", 131_072, 65_536, (0.15, 0.6, 0.075, None), "tor"),
        ("openai/gpt-oss-20b", 131_072, 65_536, (0.075, 0.3, 0.0375, None), "tor"),
    ),
    "mistral": (
        ("mistral-large-latest", 262_144, 262_144, (0.5, 1.5, 0.05, None), "tio"),
        ("mistral-medium-latest", 262_144, 262_144, (1.5, 7.5, 0.15, None), "tior"),
        ("mistral-small-latest", 262_144, 262_144, (0.15, 0.6, 0.015, None), "tior"),
        ("codestral-latest", 128_000, 128_000, (0.3, 0.9, 0.03, None), "to"),
        ("devstral-latest", 256_000, 256_000, (0.4, 2, 0.04, None), "to"),
    ),
    "xai": (
        ("grok-4.7", 500_000, None, (2, 6, 0.5, None), "tior"),
        ("grok-4.5", 500_000, None, (2, 6, 0.3, None), "tior"),
        ("grok-4.3", 1_000_000, None, (1.25, 2.5, 0.2, None), "tior"),
    ),
    "together": (
        ("openai/gpt-oss-120b", 131_072, None, (0.15, 0.6, None, None), "tor"),
        ("moonshotai/Kimi-K3", 1_048_576, None, (3, 15, 0.3, None), "tior"),
    ),
}

ALIASES: dict[str, str] = {
    "fable": "anthropic/claude-fable-5-1",
    "opus": "anthropic/claude-opus-5-5",
    "sonnet": "anthropic/claude-sonnet-5-5",
    "haiku": "anthropic/claude-haiku-5-5",
    "gpt": "openai/gpt-6.1-sol",
    "gpt-mini": "openai/gpt-5-mini",
    "gemini": "gemini/gemini-3.8-flash",
    "gemini-pro": "gemini/gemini-3.1-pro-preview",
    "gemini-flash": "gemini/gemini-3.8-flash",
    "deepseek": "deepseek/deepseek-v4-flash",
    "qwen": "qwen/qwen3.8-flash",
    "kimi": "moonshot/kimi-k3",
    "minimax": "minimax/MiniMax-M3",
    "mistral": "mistral/mistral-medium-latest",
    "codestral": "mistral/codestral-latest",
    "grok": "xai/grok-4.7",
}
"""Short names. They follow the newest model of a family; write the full name where that must not move."""

DEFAULTS: dict[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5-mini",
    "gemini": "gemini-3.8-flash",
    "openrouter": "openrouter/auto",
    "deepseek": "deepseek-v4-flash",
    "qwen": "qwen3.8-flash",
    "moonshot": "kimi-k3",
    "minimax": "MiniMax-M3",
    "cerebras": "gpt-oss-120b",
    "groq": "openai/gpt-oss-120b",
    "mistral": "mistral-medium-latest",
    "xai": "grok-4.7",
    "together": "openai/gpt-oss-120b",
}
"""The model that is taken when only a key is there, in the order in which keys are looked for."""
