"""The Kubernetes manifests: consistent with each other, with the image and with the gateway."""

import shutil
import subprocess
from pathlib import Path

import pytest

from adapters import __version__
from gateway.cli.config_options import Options
from gateway.config import load_config
from tests.deploy.files import DEPLOY, ENVIRONMENT, Object, image_environment, read_yaml
from tests.deploy.test_container import arguments

FOLDER = DEPLOY / "kubernetes"
[KUSTOMIZATION] = read_yaml((FOLDER / "kustomization.yaml").read_text())
RESOURCES: dict[str, Object] = {
    resource["kind"]: resource
    for name in KUSTOMIZATION["resources"]
    for resource in read_yaml((FOLDER / name).read_text())
}
POD: Object = RESOURCES["Deployment"]["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]


def test_resources_are_complete() -> None:
    kinds = {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    assert set(RESOURCES) == kinds
    files = {path.name for path in FOLDER.iterdir()}
    assert files == {*KUSTOMIZATION["resources"], "kustomization.yaml", "dragoman.toml"}


def test_selectors_match_the_pods() -> None:
    labels = RESOURCES["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        RESOURCES["Deployment"]["spec"]["selector"]["matchLabels"],
        RESOURCES["Service"]["spec"]["selector"],
        RESOURCES["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        RESOURCES["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        POD["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * len(selectors)


def test_ports_are_those_of_the_image() -> None:
    [port] = CONTAINER["ports"]
    assert str(port["containerPort"]) == arguments("EXPOSE")[0]
    assert image_environment()["DRAGOMAN_PORT"] == arguments("EXPOSE")[0]
    used = {RESOURCES["Service"]["spec"]["ports"][0]["targetPort"]}
    used |= {CONTAINER[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "readiness")}
    assert used == {port["name"]}


def test_pods_are_confined() -> None:
    security = POD["securityContext"]
    assert security["runAsNonRoot"] is True
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == arguments("USER")[0]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["automountServiceAccountToken"] is False
    assert POD["enableServiceLinks"] is False
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert set(mounts) == {"/etc/dragoman", "/var/lib/dragoman", "/tmp"}  # noqa: S108 - a mount
    assert {*mounts.values()} == {volume["name"] for volume in POD["volumes"]}


def test_configuration_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    config = load_config(FOLDER / "dragoman.toml")
    stop = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > stop + config.server.shutdown_timeout
    command, option, file = CONTAINER["args"]
    assert (command, option, Path(file).name) == ("serve", "--config", "dragoman.toml")
    assert "config" in Options.__struct_fields__


def test_version_of_the_image_is_that_of_the_package() -> None:
    [image] = KUSTOMIZATION["images"]
    assert (image["name"], image["newTag"]) == (CONTAINER["image"], __version__)


def test_kubectl_accepts_the_manifests() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("requires kubectl")
    done = subprocess.run(  # noqa: S603 - a constant command
        [kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True, check=True
    )
    resources = {one["kind"]: one for one in read_yaml(done.stdout)}
    assert set(resources) == {*RESOURCES, "ConfigMap"}
    volumes = resources["Deployment"]["spec"]["template"]["spec"]["volumes"]
    # The name depends on the content, so that a change restarts the pods.
    assert volumes[0]["configMap"]["name"] == resources["ConfigMap"]["metadata"]["name"]
    [container] = resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"dragoman:{__version__}"
