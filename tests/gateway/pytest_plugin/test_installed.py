"""Projects of users, in an environment with the wheel."""

import re

import pytest

from tests.gateway.pytest_plugin.installed import Project

SNAPSHOTS = "cases/__snapshots__"
# The parts of the service, and the libraries that only the service needs.
SERVICE = ("gateway.app", "gateway.backends", "httpx", "litestar", "structlog", "uvicorn")
NO_SYRUPY = ("-p", "no:syrupy")
CASE = '{"dialect": "chat", "body": {"model": "m", "messages": []}}'
# Unlike a path, the option does not restrict the snapshots that syrupy looks for.
ONLY_CASES = ("-o", "testpaths=cases")


def counts(output: str) -> dict[str, int]:
    """Return the numbers in the last line of a run, by outcome."""
    last = output.strip().splitlines()[-1]
    return {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", last)}


def test_sample_project_passes(sample: Project) -> None:
    sample.check(*ONLY_CASES, "--snapshot-update")
    assert counts(sample.check()) == {"passed": 16}
    snapshots = sorted(path for path in (sample.folder / SNAPSHOTS).rglob("*.*"))
    names = [path.relative_to(sample.folder / SNAPSHOTS).as_posix() for path in snapshots]
    assert names == [
        "chat-to-legacy/forecast.json",
        "chat-to-legacy/rain.sse",
        "chat-to-legacy/recorded/reply.json",
        "chat-to-responses/forecast.json",
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
    assert counts(sample.check("-n", "2")) == {"passed": 16}


def test_changed_translation_fails_until_it_is_updated(sample: Project) -> None:
    sample.check("cases", "--snapshot-update")
    case = sample.folder / "cases/forecast.json"
    case.write_text(case.read_text().replace("Oslo", "Bergen"))
    done = sample.run("cases")
    assert done.returncode == 1
    assert "chat-to-responses/forecast: the translation differs from its snapshot" in done.stdout
    assert '-         "content": "Will it rain in Oslo?"' in done.stdout
    assert '+         "content": "Will it rain in Bergen?"' in done.stdout
    assert "Traceback" not in done.stdout
    assert "collection.py" not in done.stdout
    assert counts(done.stdout) == {"failed": 2, "passed": 8}
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
    assert counts(selected) == {"passed": 2, "deselected": 8}


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
