"""Transforms of backends: their import paths, their options, and errors in them."""

import sys
from pathlib import Path

import pytest

from adapters import Transform
from adapters.transforms import AddSystemMessage, RedactText, RenameTools
from gateway.config import load_config
from gateway.config.transforms import make_transforms
from tests.gateway.config.test_config import BACKEND, LOCAL, errors_in

SHOP = """
from adapters import Request, Transform, TransformLosses

class Shop(Transform, frozen=True):
    sizes: list[int]
    name: str = "shop"

    def __post_init__(self) -> None:
        if self.name == "fault":
            raise KeyError(self.name)

class NotOne:
    pass
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a configuration file beside the modules of a user."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "weather_shop.py").write_text(SHOP)
    (tmp_path / "broken_shop.py").write_text("1 / 0\n")
    (tmp_path / "lacking_shop.py").write_text("import nothing_like_this\n")
    return tmp_path / "dragoman.toml"


def test_transforms_are_made_in_their_order(file: Path) -> None:
    rename = '{ use = "adapters.transforms:RenameTools", options.names = { a = "b" } }'
    system = '{ use = "adapters.transforms:AddSystemMessage", options = { text = "Hi" } }'
    file.write_text(
        f"{BACKEND}transforms = [{rename}, {system}]\n"
        '[[backends]]\nname = "other"\nurl = "http://127.0.0.1/v1"\ndialect = "chat"\n'
        '[[backends.transforms]]\nuse = "adapters.transforms:RedactText"\n'
        'options = { patterns = ["secret"], replies = false }\n'
    )
    made = [make_transforms(backend.transforms) for backend in load_config(file).backends]
    assert made == [
        (RenameTools({"a": "b"}), AddSystemMessage("Hi")),
        (RedactText(("secret",), replies=False),),
    ]


def test_transform_of_the_user_is_imported(file: Path) -> None:
    file.write_text(
        f'{BACKEND}[[backends.transforms]]\nuse = "weather_shop:Shop"\noptions.sizes = [1]\n'
    )
    [backend] = load_config(file).backends
    [transform] = make_transforms(backend.transforms)
    assert isinstance(transform, Transform)
    assert (type(transform).__name__, vars(type(transform))["__module__"]) == (
        "Shop",
        "weather_shop",
    )


CLASS = 'the path of a class, "package.module:Class"'
REMEDY = "install it in the environment of dragoman, or set PYTHONPATH"


@pytest.mark.parametrize(
    ("transforms", "error"),
    [
        ('"shop.Transform"', f': expected {CLASS} or a table, got "shop.Transform"'),
        ('{ use = "shop" }', f': use: expected {CLASS}, got "shop"'),
        ("{ options = {} }", f": use: key is required; expected {CLASS}"),
        (
            '"no_such_shop:Shop"',
            f": cannot import no_such_shop: No module named 'no_such_shop'; {REMEDY}",
        ),
        (
            '"lacking_shop:Shop"',
            f": cannot import lacking_shop: No module named 'nothing_like_this'; {REMEDY}",
        ),
        (
            '{ use = "broken_shop:Shop" }',
            ": use: cannot import broken_shop, which raised ZeroDivisionError: division by zero",
        ),
        ('"weather_shop:Shops"', ': weather_shop has no Shops; expected one of "Shop"'),
        ('"weather_shop:NotOne"', ": weather_shop:NotOne is not a subclass of adapters.Transform"),
        (
            '"weather_shop:Transform"',
            ": weather_shop:Transform is not a subclass of adapters.Transform",
        ),
        ('"weather_shop:Shop"', ": options.sizes: key is required; expected an array"),
        (
            '{ use = "weather_shop:Shop", options = { size = [1] , sizes = ["a"]} }',
            ": options.size: unknown key (did you mean sizes?); known keys: sizes, name",
        ),
        (
            '{ use = "weather_shop:Shop", options = { sizes = ["a"]} }',
            ': options.sizes[0]: expected an integer, got "a"',
        ),
        (
            '{ use = "weather_shop:Shop", options = { sizes = [], name = "fault" } }',
            ": options: Shop raised KeyError: 'fault'",
        ),
        (
            '{ use = "adapters.transforms:AddSystemMessage", options.text = "" }',
            ": options: text must not be empty",
        ),
    ],
)
def test_error_names_the_key_and_the_remedy(transforms: str, error: str, file: Path) -> None:
    found = errors_in(file, f"{BACKEND}transforms = [{transforms}]\n")
    assert f"{LOCAL}: transforms[0]{error}" in found


def test_errors_of_all_transforms_are_reported(file: Path) -> None:
    found = errors_in(file, f'{BACKEND}transforms = ["no_such_shop:A", "broken_shop:B"]\n')
    assert [error.split(": ")[1] for error in found] == ["transforms[0]", "transforms[1]"]
