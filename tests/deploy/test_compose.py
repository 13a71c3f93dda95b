"""`compose.yaml`: two nodes that share one PostgreSQL database."""

import re
from contextlib import ExitStack
from pathlib import Path

import httpx

from gateway.config import load_config
from gateway.crypto import api_key_digest
from tests.deploy.files import DEPLOY, ENVIRONMENT, Object, read_yaml
from tests.gateway.config.test_database import PASSWORD, with_password_role
from tests.gateway.gateway_process import COMMAND, ROOT, run_server
from tests.gateway.postgres import new_database

[COMPOSE] = read_yaml((ROOT / "compose.yaml").read_text())
NODES: list[Object] = [COMPOSE["services"][name] for name in ("gateway-1", "gateway-2")]
UNKNOWN_KEY = "0" * 64


def test_nodes_differ_only_in_their_ports() -> None:
    first, second = ({**node, "ports": None} for node in NODES)
    assert first == second
    ports = [node["ports"] for node in NODES]
    assert ports == [["127.0.0.1:8080:8080"], ["127.0.0.1:8081:8080"]]


def test_nodes_are_confined() -> None:
    for node in NODES:
        assert node["read_only"] is True
        assert node["cap_drop"] == ["ALL"]
        assert node["security_opt"] == ["no-new-privileges:true"]
        assert node["tmpfs"] == ["/tmp"]  # noqa: S108 - a mount in a container
        seconds = int(node["stop_grace_period"].removesuffix("s"))
        assert seconds > load_config(None).server.shutdown_timeout
        assert node["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_database_is_pinned_by_its_tag() -> None:
    assert re.fullmatch(r"postgres:\d+-alpine", COMPOSE["services"]["postgres"]["image"])


def test_required_variables_are_in_the_example() -> None:
    required = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text()))
    example = (DEPLOY / "compose.env.example").read_text()
    assert set(re.findall(r"^(\w+)=", example, re.MULTILINE)) == required


def test_command_of_the_nodes_runs(tmp_path: Path) -> None:
    node = NODES[0]
    [mount] = node["volumes"]
    source, target, _ = mount.split(":")
    *options, file = node["command"]
    assert file == target
    digest = api_key_digest("client-key")
    configuration = tmp_path / "dragoman.toml"
    configuration.write_text((ROOT / source).read_text().replace(UNKNOWN_KEY, digest))
    url = with_password_role(new_database())
    given = dict.fromkeys(node["environment"], "") | ENVIRONMENT
    given |= {"DRAGOMAN_STATE_URL": url, "PGPASSWORD": PASSWORD}
    given["DRAGOMAN_WORKERS"] = "1"
    with ExitStack() as stack:
        command = [*COMMAND, *options, str(configuration)]
        first, second = (
            stack.enter_context(run_server(command, tmp_path, given)) for _ in range(2)
        )
        headers = {"Authorization": "Bearer client-key"}
        created = httpx.post(f"{first.url}/conversations", headers=headers, json={})
        conversation = created.json()["id"]
        found = httpx.get(f"{second.url}/conversations/{conversation}", headers=headers)
        assert found.status_code == 200
        assert httpx.get(f"{second.url}/conversations/{conversation}").status_code == 401
