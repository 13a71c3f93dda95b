"""The container image: its files are sufficient, and its commands run. There is no engine here."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, image_environment, read_dockerfile
from tests.gateway.certificates import CertificateAuthority
from tests.gateway.gateway_process import COMMAND, ROOT, Gateway, run_server
from tests.gateway.waiting import TIMEOUT_SECONDS

INSTRUCTIONS = read_dockerfile()
LOOPBACK = {"DRAGOMAN_HOST": "127.0.0.1"}
# Runs a command without capabilities, on a read-only file system except for one folder.
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /var/tmp && cd "$0" &&
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all env TMPDIR=/var/tmp "$@"
"""


def arguments(instruction: str) -> list[str]:
    return [argument for name, argument in INSTRUCTIONS if name == instruction]


def copied() -> list[str]:
    """Return the files and folders of the repository that are copied into the image."""
    words = [argument.split() for argument in arguments("COPY") if "--from" not in argument]
    return [source for *sources, _target in words for source in sources]


def check_health(gateway: Gateway, **environment: str) -> int:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(DEPLOY / "health_check.py")],
        env={**os.environ, "DRAGOMAN_PORT": str(gateway.port), **environment},
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    return done.returncode


def test_base_is_pinned_by_its_tag() -> None:
    images = [argument.split()[0] for argument in arguments("FROM")]
    assert images
    for image in images:
        assert re.fullmatch(r"python:\d+\.\d+-slim-\w+", image)


def test_user_is_not_root() -> None:
    [user] = arguments("USER")
    assert user == "10001:10001"
    # The volume and the command follow the user.
    names = [name for name, _ in INSTRUCTIONS]
    assert names.index("USER") < names.index("WORKDIR", names.index("USER")) < names.index("VOLUME")
    assert arguments("VOLUME") == ["/var/lib/dragoman"] == arguments("WORKDIR")[-1:]


def test_copied_files_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for name in copied():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored


def test_copied_files_are_sufficient_for_a_wheel(tmp_path: Path) -> None:
    for name in copied():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)  # noqa: S603 - our own command
    assert [*(tmp_path / "dist").glob("dragoman-*.whl")]


def test_command_and_health_check_run(tmp_path: Path) -> None:
    [command] = arguments("ENTRYPOINT")
    [options] = map(json.loads, arguments("CMD"))
    assert (json.loads(command), options) == (["dragoman"], ["serve"])
    [check] = arguments("HEALTHCHECK")
    assert check.endswith('CMD ["python", "/opt/dragoman/health_check.py"]')
    with run_server([*COMMAND, *options], tmp_path, image_environment() | LOOPBACK) as gateway:
        assert check_health(gateway) == 0
        gateway.terminate()
        assert gateway.wait() == 0
    assert check_health(gateway) == 1
    assert check_health(gateway, DRAGOMAN_PORT="tcp://10.0.0.7:8080") in (0, 1)


def test_health_check_uses_tls(tmp_path: Path) -> None:
    certificate, key = CertificateAuthority(tmp_path).issue("gateway.example")
    tls = {"DRAGOMAN_TLS_CERT_FILE": str(certificate), "DRAGOMAN_TLS_KEY_FILE": str(key)}
    with run_server([*COMMAND, "serve"], tmp_path, LOOPBACK | tls) as gateway:
        assert check_health(gateway, **tls) == 0
        assert check_health(gateway) == 1


def test_gateway_runs_on_a_read_only_file_system(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "--propagation=private", "sh", "-c", READ_ONLY, str(tmp_path)]
    try:
        done = subprocess.run([*command, "true"], check=False, capture_output=True)  # noqa: S603 - our own command
    except FileNotFoundError:
        pytest.skip("requires unshare of util-linux")
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.decode()}")
    # Two workers share their metrics and the copy of the configuration in temporary folders.
    serve = [*command, *COMMAND, "serve", "--workers", "2"]
    with run_server(serve, tmp_path, image_environment() | LOOPBACK) as gateway:
        assert check_health(gateway) == 0
        gateway.terminate()
        assert gateway.wait() == 0
    assert (tmp_path / "dragoman.db").exists()
    assert "Traceback" not in gateway.log
