"""Judges the inputs of an answer by their grammars, while others are served."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from adapters.ir.types import CustomTool
from adapters.losses import Loss
from gateway.grammar.check import check_grammar, is_checkable

# So many seconds an answer waits for its judgement.
_PATIENCE = 3.0
# One judgement at a time, and none in the threads that others wait for.
_THREAD = ThreadPoolExecutor(1, "grammars")


class Judging:
    """The inputs of one answer: noted as they come, and judged when the answer is whole."""

    def __init__(self) -> None:
        self._noted: list[tuple[CustomTool, str]] = []

    def note(self, tool: CustomTool, text: str) -> None:
        """Note an input; nobody waits for its judgement here."""
        if is_checkable(tool, text):
            self._noted.append((tool, text))

    async def losses(self) -> list[Loss]:
        """Give what is wrong with the inputs, as far as that can be told in time."""
        noted, self._noted = self._noted, []
        losses: list[Loss] = []
        if not noted:
            return losses
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for tool, text in noted:
                    problem = await loop.run_in_executor(_THREAD, check_grammar, tool, text)
                    if problem is not None:
                        why = f"its input does not keep to the grammar: {problem}"
                        losses.append(Loss("changed", f"call {tool.name}", why))
        return losses
