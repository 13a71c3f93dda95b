"""Projects of users, in an environment with the wheel."""

import re
import tomllib
from collections.abc import Iterator

import pytest
from msgspec.structs import fields

from gateway.pytest_plugin.backend import Backend, run_backend
from gateway.pytest_plugin.case_options import CaseOptions
from gateway.pytest_plugin.cases import ErrorCase, ReplyCase, RequestCase, StreamCase
from gateway.pytest_plugin.delivery import Delivery
from tests.gateway.addresses import refusing_address
from tests.gateway.gateway_process import ROOT
from tests.gateway.pytest_plugin.installed import Project

SNAPSHOTS = "cases/__snapshots__"
# The parts of the service, and the libraries that only the service needs.
SERVICE = ("gateway.app", "gateway.backends", "httpx", "litestar", "structlog", "uvicorn")
NO_SYRUPY = ("-p", "no:syrupy")
CASE = '{"dialect": "chat", "body": {"model": "m", "messages": []}}'
# Without it, pytest-asyncio warns in every run.
ASYNCIO = "asyncio_default_fixture_loop_scope = function"
# Unlike a path, the option does not restrict the snapshots that syrupy looks for.
ONLY_CASES = ("-o", "testpaths=cases")


def counts(output: str) -> dict[str, int]:
    """Return the numbers in the last line of a run, by outcome."""
    last = output.strip().splitlines()[-1]
    return {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", last)}


def test_sample_project_passes(sample: Project) -> None:
    sample.check(*ONLY_CASES, "--snapshot-update")
    assert counts(sample.check()) == {"passed": 18}
    snapshots = sorted(path for path in (sample.folder / SNAPSHOTS).rglob("*.*"))
    names = [path.relative_to(sample.folder / SNAPSHOTS).as_posix() for path in snapshots]
    assert names == [
        "chat-to-chat/limited/short.json",
        "chat-to-legacy/forecast.json",
        "chat-to-legacy/rain.sse",
        "chat-to-legacy/recorded/reply.json",
        "chat-to-responses/forecast.json",
        "chat-to-responses/limited/short.json",
        "chat-to-responses/rain.sse",
        "chat-to-responses/recorded/reply.json",
        "responses-to-chat/overloaded.json",
        "responses-to-chat/recorded/request.json",
        "responses-to-legacy/overloaded.json",
        "responses-to-legacy/recorded/request.json",
    ]
    forecast = (sample.folder / SNAPSHOTS / "chat-to-responses/forecast.json").read_text()
    assert '"dropped seed: the Responses API does not support this field (hint)"' in forecast


def test_sample_project_passes_in_several_processes(sample: Project) -> None:
    sample.check("cases", "--snapshot-update")
    assert counts(sample.check("-n", "2")) == {"passed": 18}


def test_changed_transform_fails_until_the_snapshots_are_updated(sample: Project) -> None:
    missing = sample.run("cases")
    assert "short: there is no snapshot; if this translation is right, write it" in missing.stdout
    sample.check("cases", "--snapshot-update")
    transform = sample.folder / "my_transforms.py"
    transform.write_text(transform.read_text().replace("1000", "500"))
    done = sample.run("cases")
    assert done.returncode == 1
    title = "chat-to-responses/limited/short: the translation differs from its snapshot"
    assert f"{title}; if it is right, update it with --snapshot-update" in done.stdout
    assert '-     "max_output_tokens": 1000,' in done.stdout
    assert '+     "max_output_tokens": 500,' in done.stdout
    assert "LimitOutput: limited to 500 (capability)" in done.stdout
    assert "Traceback" not in done.stdout
    assert "collection.py" not in done.stdout
    assert counts(done.stdout) == {"failed": 2, "passed": 10}
    sample.check("cases", "--snapshot-update")
    sample.check("cases")


def test_unused_snapshots_are_reported_and_deleted(sample: Project) -> None:
    sample.check("--snapshot-update", *ONLY_CASES)
    (sample.folder / "cases/rain.sse").unlink()
    done = sample.run(*ONLY_CASES, "--snapshot-details")
    assert done.returncode == 1
    assert "2 snapshots unused" in done.stdout
    assert f"({SNAPSHOTS}/chat-to-legacy/rain.sse)" in done.stdout
    sample.check("--snapshot-update", *ONLY_CASES)
    assert not (sample.folder / SNAPSHOTS / "chat-to-legacy/rain.sse").exists()
    sample.check(*ONLY_CASES)


def test_a_part_of_the_cases_can_be_selected(sample: Project) -> None:
    sample.check(*ONLY_CASES, "--snapshot-update")
    assert counts(sample.check("cases/rain.sse::chat-to-legacy")) == {"passed": 1}
    selected = sample.check(*ONLY_CASES, "-k", "forecast")
    assert counts(selected) == {"passed": 2, "deselected": 10}


def test_folder_of_the_command_line_is_tested_beside_given_paths(project: Project) -> None:
    project.write("own/case.json", CASE)
    project.write("tests/test_nothing.py", "def test_nothing():\n    pass\n")
    options = ("tests", "--dragoman-cases", "own", "--snapshot-update")
    assert counts(project.check(*options)) == {"passed": 3}
    done = project.run("--dragoman-cases", "missing")
    assert done.returncode == 4
    assert "dragoman_cases" in done.stderr
    assert "missing is not a folder" in done.stderr


def test_options_of_a_folder(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\ndragoman_cases = cases\n")
    project.write("cases/cases.toml", 'targets = ["responses"]\nprofile = "openai"\n')
    project.write("cases/inner/cases.toml", 'targets = ["chat", "legacy"]\n')
    project.write("cases/one.json", CASE)
    project.write("cases/inner/two.json", CASE)
    project.check("--snapshot-update")
    found = sorted(path.name for path in (project.folder / SNAPSHOTS).rglob("*.json"))
    assert found == ["one.json", "two.json", "two.json"]
    assert (project.folder / SNAPSHOTS / "chat-to-legacy/inner/two.json").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "a.json: Input data was truncated"),
        ("a.json", '{"dialect": "x", "body": {}}', "Invalid enum value 'x' - at `$.dialect`"),
        ("a.json", '{"dialect": "chat", "body": {}, "no": 1}', "unknown field `no`"),
        ("a.sse", "data: 1\n\n", "`: name value` lines and an empty line must precede"),
        ("cases.toml", 'profile = "none"', "profile must be one of generic"),
        ("cases.toml", 'transforms = ["no:No"]', "cannot import no"),
        ("r/backend-reply.json", "{}", "needs a dialect"),
    ],
)
def test_invalid_case_is_an_error(project: Project, name: str, content: str, message: str) -> None:
    project.write("cases/z.json", CASE)
    project.write(f"cases/{name}", content)
    done = project.run("--dragoman-cases", "cases")
    assert done.returncode == 2
    assert message in done.stdout
    assert "Traceback" not in done.stdout


def test_run_without_dragoman_imports_nothing_of_it(project: Project) -> None:
    project.write(
        "test_modules.py",
        """
        import sys

        def test_modules():
            packages = {name.partition(".")[0] for name in sys.modules}
            assert not {"adapters", "httpx", "litestar", "msgspec", "uvicorn"} & packages
            own = {name for name in sys.modules if name.startswith("gateway")}
            assert own == {"gateway", "gateway.pytest_plugin"}
        """.replace("\n        ", "\n"),
    )
    project.check("-p", "no:hypothesispytest", "-p", "no:anyio")


def test_fixtures_import_nothing_of_the_service(project: Project) -> None:
    project.write("cases/case.json", CASE)
    project.write(
        "test_modules.py",
        f"""
        import sys

        def test_modules(dragoman_translate, dragoman_backend, dragoman_gateway):
            request = {{"model": "m", "messages": [{{"role": "user", "content": "Hi"}}]}}
            dragoman_translate("chat", "legacy", request=request).assert_lossless()
            assert not {{*{SERVICE}}} & {{*sys.modules}}
        """.replace("\n        ", "\n"),
    )
    project.check("--dragoman-cases", "cases", "--snapshot-update", "-p", "no:anyio")


def test_missing_syrupy_is_named_only_where_it_is_needed(project: Project) -> None:
    project.write("cases/case.json", CASE)
    project.write("test_backend.py", "def test_backend(dragoman_backend):\n    pass\n")
    assert counts(project.check(*NO_SYRUPY)) == {"passed": 1}
    done = project.run(*NO_SYRUPY, "--dragoman-cases", "cases")
    assert done.returncode == 2
    assert "install it with: pip install 'dragoman[pytest]'" in done.stdout
    assert "Traceback" not in done.stdout


def test_plugin_can_be_disabled(sample: Project) -> None:
    sample.write("pyproject.toml", "")
    sample.write("tests/test_weather.py", "def test_nothing():\n    pass\n")
    assert counts(sample.check("-p", "no:dragoman")) == {"passed": 1}


def test_invalid_configuration_is_named(project: Project) -> None:
    project.write(
        "test_config.py",
        """
        import pytest

        @pytest.mark.parametrize("dragoman_config", [{"backends": [{"dialct": "chat"}]}])
        def test_config(dragoman_gateway):
            pass
        """.replace("\n        ", "\n"),
    )
    output = project.run().stdout
    assert "dialct: unknown key (did you mean dialect?)" in output
    assert "Traceback" not in output
    assert "gateway_fixture.py" not in output


def test_fixtures_work_with_pytest_asyncio(project: Project) -> None:
    pytest.importorskip("pytest_asyncio")
    project.write("pytest.ini", f"[pytest]\n{ASYNCIO}\n")
    project.write(
        "test_asyncio.py",
        """
        import openai
        import pytest

        @pytest.mark.asyncio
        async def test_asyncio(dragoman_gateway, dragoman_backend):
            dragoman_backend.reply("Hello there", pause=0.001)
            async with openai.AsyncOpenAI() as client:
                async with client.responses.stream(model="m", input="Hi") as stream:
                    response = await stream.get_final_response()
            assert response.output_text == "Hello there"
        """.replace("\n        ", "\n"),
    )
    assert counts(project.check()) == {"passed": 1}


# Recordings


@pytest.fixture
def recorded(project: Project) -> Iterator[tuple[Project, Backend]]:
    """Return a project with a test that is recorded, and its real backend."""
    project.write("pytest.ini", f"[pytest]\nfilterwarnings = error\n{ASYNCIO}\n")
    project.write(
        "test_recorded.py",
        """
        import openai
        import os
        import pytest

        @pytest.fixture
        def dragoman_config():
            return {"backends": [{"url": os.environ["BACKEND"], "dialect": "chat"}]}

        @pytest.mark.dragoman_recordings
        def test_hello(dragoman_gateway):
            client = openai.OpenAI(max_retries=0)
            for question in os.environ.get("QUESTIONS", "Hi").split():
                with client.responses.stream(model="m", input=question) as stream:
                    assert stream.get_final_response().output_text == "Hello"
        """.replace("\n        ", "\n"),
    )
    with run_backend() as backend:
        yield project, backend


def test_recordings_replace_the_backend(recorded: tuple[Project, Backend]) -> None:
    project, backend = recorded
    in_ci = project.run("--dragoman-record", "all", BACKEND=backend.url, CI="true")
    assert in_ci.returncode == 1
    assert "make them with --dragoman-record once where the variable CI is not" in in_ci.stdout
    assert backend.requests == []
    with refusing_address() as unreachable:
        failed = project.run("--dragoman-record", "once", BACKEND=f"{unreachable}/v1")
    assert "cannot connect to the backend" in failed.stdout
    backend.reply("Hello")
    key = "sk-proj-0123456789abcdefghij"
    once = ("--dragoman-record", "once")
    project.check(*once, BACKEND=backend.url, OPENAI_API_KEY=key)
    assert backend.last_request.headers["authorization"] == f"Bearer {key}"
    for path in (project.folder / "recordings/test_recorded/test_hello").rglob("*.*"):
        assert path.is_dir() or key not in path.read_text()
    project.check(*once, BACKEND=backend.url)
    assert len(backend.requests) == 1
    backend.reply("Hello")
    project.check("--dragoman-record", "all", BACKEND=backend.url)
    assert len(backend.requests) == 2
    assert len([*(project.folder / "recordings/test_recorded/test_hello").iterdir()]) == 1


def test_network_is_not_used_without_recording(recorded: tuple[Project, Backend]) -> None:
    project, _ = recorded
    url = "https://api.example.com/v1"
    unmarked = (project.folder / "test_recorded.py").read_text().replace("@pytest.mark", "# ")
    project.write("test_recorded.py", unmarked)
    done = project.run("--dragoman-record", "all", BACKEND=url)
    assert f"the backend {url} is called only while a test is recorded" in done.stdout
    assert "Traceback" not in done.stdout


def test_new_requests_are_recorded_beside_old_ones(recorded: tuple[Project, Backend]) -> None:
    project, backend = recorded
    new_episodes = ("--dragoman-record", "new_episodes")
    backend.reply("Hello")
    project.check(*new_episodes, BACKEND=backend.url)
    backend.reply("Hello")
    project.check(*new_episodes, BACKEND=backend.url, QUESTIONS="Hi Bye")
    assert [b"Bye" in request.body for request in backend.requests] == [False, True]
    project.check(BACKEND=backend.url, QUESTIONS="Bye Hi Bye")
    assert len(backend.requests) == 2


# docs/testing-your-transforms.md

PAGE = (ROOT / "docs/testing-your-transforms.md").read_text()
README_BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
NAMED_BLOCKS = re.findall(r"`([\w/.-]+)`:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL)
SNAPSHOT = re.compile(r"`(cases/__snapshots__/[\w/.-]+)`.*?```json\n(.*?)```", re.DOTALL)
RECORDED = {
    "client-request.json": '{"model": "gpt-5", "input": "Is it raining in Oslo?"}',
    "backend-request.json": '{"model": "gpt-5", "messages": '
    '[{"role": "user", "content": "Is it raining in Oslo?"}]}',
    "backend-reply.json": '{"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5",'
    ' "choices": [{"index": 0, "message": {"role": "assistant", "content": "Oslo is dry."},'
    ' "finish_reason": "stop"}]}',
}


def test_every_block_of_the_page_is_run(project: Project) -> None:
    for name, content in NAMED_BLOCKS:
        project.write(name, content)
    [readme] = [block for block in README_BLOCKS if "dragoman_backend" in block]
    project.write("tests/test_readme.py", readme)
    for name, content in RECORDED.items():
        project.write(f"tests/recordings/oslo/{name}", content)
    [(path, snapshot)] = SNAPSHOT.findall(PAGE)
    assert len(NAMED_BLOCKS) + len(COMMANDS) + 1 == PAGE.count("```") // 2
    install, *commands = COMMANDS
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert install == "pip install 'dragoman[pytest]'"
    assert "pytest" in extras["optional-dependencies"]
    # In this order, so that the first run writes the snapshots.
    for command in sorted(commands, key=lambda command: "--snapshot-update" not in command):
        settings, _, options = command.partition("pytest")
        environment = dict(word.split("=") for word in settings.split())
        project.check(*options.split(), **environment)
    assert (project.folder / path).read_text() == snapshot


def test_tables_of_the_page_are_complete() -> None:
    rows = PAGE.partition("| field | in |")[2].partition("\n\n")[0]
    documented = {*re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)", rows, re.MULTILINE)))}
    kinds = (RequestCase, ReplyCase, StreamCase, ErrorCase)
    assert documented == {field.encode_name for kind in kinds for field in fields(kind)} - {"name"}
    options = {field.encode_name for field in fields(CaseOptions)}
    assert options <= {*re.findall(r"`(\w+)`", PAGE)}
    methods = {name for name in vars(Backend) if not name.startswith("_")}
    assert methods <= {*re.findall(r"`(\w+)", PAGE)}
    assert {*Delivery.__annotations__} <= {*re.findall(r"`(\w+)`", PAGE)}
