"""Every valid history is a request that every vendor accepts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.history_strategies import histories
from tests.models.wire_support import ADD, FORMATS, asked, model_for
from windlass.events.values.items import HistoryItem, ModelSettings, ServerToolSchema, ToolSchema
from windlass.models.base import Reply, Request
from windlass.testing.model_server import Format, ModelServer

PATCH = ToolSchema(name="patch", description="Applies a patch.", grammar={"syntax": "regex", "definition": ".*"})
thinking = st.sampled_from((None, "off", "low", "high"))


models = st.sampled_from(("model-x", "gemini-3-pro", "claude-opus-4-6", "gpt-5"))
"""Models that are spoken to in different ways."""


@pytest.mark.guard(900)
@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    items=histories(ended=False),
    name=models,
    level=thinking,
    state=st.sampled_from(("", "now: 3 of 5")),
    whole=st.booleans(),
)
async def test_any_valid_history_is_accepted(
    form: Format, items: list[HistoryItem], name: str, level: str | None, state: str, whole: bool
) -> None:
    async with ModelServer(script=lambda request: "fine") as server:
        model = model_for(server, form, thinking=True, model=name)
        request = Request(
            model="m",
            instructions="Be exact.",
            items=items,
            tools=(ADD, PATCH),
            task_state=state,
            settings=ModelSettings(thinking=level),  # type: ignore[arg-type]
            stream=not whole,
        )
        _, end = await asked(model, request)
        await model.close()
        assert server.refusals == []
        assert isinstance(end, Reply)


@pytest.mark.parametrize("form", FORMATS)
async def test_server_tools_are_passed_on_as_configuration(form: Format) -> None:
    names = {"anthropic": "web_search_20250305", "gemini": "googleSearch", "openai": "web_search_options"}
    tool = ServerToolSchema(name=names.get(form, "web_search"))
    if form == "anthropic":
        tool = ServerToolSchema(name=tool.name, config={"name": "web_search"})
    async with ModelServer(script=["fine"]) as server:
        model = model_for(server, form)
        _, end = await asked(model, Request(model="m", tools=(ADD,), server_tools=(tool,)))
        await model.close()
    assert isinstance(end, Reply), end
