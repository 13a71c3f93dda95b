"""Async tests, which run with a time limit, once in each kind of event loop."""

import asyncio
from inspect import iscoroutinefunction, signature

import pytest
import uvloop

from tests.gateway.waiting import TIMEOUT_SECONDS

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("loop")
        metafunc.parametrize("loop", LOOPS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test if it is async, and report that it was run."""
    test = pyfuncitem.obj
    if not iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in signature(test).parameters}

    async def run_test() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test(**arguments)

    loop = str(pyfuncitem.callspec.params["loop"])
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run_test())
    return True
