"""Collection of cases: a test for each target dialect, which compares a snapshot."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.location import PyTestLocation

from gateway.config.transforms import TransformConfigError, make_transforms
from gateway.pytest_plugin.case_options import CaseOptions, read_options
from gateway.pytest_plugin.case_translation import translate_case
from gateway.pytest_plugin.cases import Case, CaseError, StreamCase, read_case
from gateway.pytest_plugin.recorded_cases import read_recorded_cases
from gateway.pytest_plugin.snapshots import JsonSnapshots, SseSnapshots, TextSnapshots

# Snapshots are named by case and not by test, which syrupy warns about when it writes one.
_UNRELATED_NAME_WARNING = r"ignore:\s*Can not relate snapshot (location|name):UserWarning"


class _NamedCase(NamedTuple):
    case: Case
    # What the names of its tests begin with.
    prefix: str
    # The path of its snapshots below the folder of a pair of dialects.
    path: Path


class CaseCollector(pytest.Collector):
    """A collector of the cases in a file or in the folder of a recording."""

    # The folder of all cases.
    root: Path

    @classmethod
    def create(cls, parent: pytest.Collector, path: Path, root: Path) -> Self:
        """Return the collector for a path below the folder of all cases."""
        collector = cls.from_parent(parent, path=path)  # pyright: ignore[reportUnknownMemberType] - not typed
        collector.root = root
        return collector

    def read_cases(self) -> list[_NamedCase]:
        """Read the cases, or raise a `CaseError`."""
        raise NotImplementedError

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each case and each of its target dialects."""
        try:
            options = read_options(self.path.parent, self.root)
            make_transforms(options.transforms)
            cases = self.read_cases()
        except (CaseError, TransformConfigError) as error:
            raise self.CollectError(str(error)) from None
        for case, prefix, path in cases:
            for target in options.targets_of(case):
                pair = f"{case.dialect}-to-{target}"
                test = _make_test(case, target, options, f"{pair}/{path.as_posix()}")
                item = CaseTest.create(self, prefix + pair, test)
                item.add_marker(pytest.mark.filterwarnings(_UNRELATED_NAME_WARNING))
                yield item


class CaseTest(pytest.Function):
    """The test of a case with one target dialect."""

    @classmethod
    def create(cls, parent: pytest.Collector, name: str, test: Callable[..., None]) -> Self:
        """Return the item that runs a test."""
        return cls.from_parent(parent, name=name, callobj=test)  # pyright: ignore[reportUnknownMemberType] - not typed

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the place and the title in reports of failures."""
        return self.path, None, self.nodeid


class CaseFile(CaseCollector, pytest.File):
    """A case in a file."""

    def read_cases(self) -> list[_NamedCase]:
        """Read the only case."""
        relative = self.path.relative_to(self.root)
        return [_NamedCase(read_case(self.path), "", relative.with_suffix(""))]


class RecordingFolder(CaseCollector, pytest.Directory):
    """A recorded exchange."""

    def read_cases(self) -> list[_NamedCase]:
        """Read the request and the replies."""
        relative = self.path.relative_to(self.root)
        return [
            _NamedCase(case, f"{case.name}-", relative / case.name)
            for case in read_recorded_cases(self.path)
        ]


def _make_test(
    case: Case, target: str, options: CaseOptions, name: str
) -> Callable[[pytest.Config, SnapshotAssertion], None]:
    extension = _SseSnapshots if isinstance(case, StreamCase) else _JsonSnapshots

    def test_case(pytestconfig: pytest.Config, snapshot: SnapshotAssertion) -> None:
        text = translate_case(case, target, options)
        expected = snapshot.use_extension(extension)(name=name)
        if text != expected:
            message = [f"{name}: {_fault(expected)}", *_explain(pytestconfig, text, expected)]
            pytest.fail("\n".join(message), pytrace=False)

    return test_case


def _fault(expected: SnapshotAssertion) -> str:
    """Return what is wrong, and the remedy."""
    if all(one.recalled_data is None for one in expected.executions.values()):
        return "there is no snapshot; if this translation is right, write it with --snapshot-update"
    return (
        "the translation differs from its snapshot; if it is right, update it with "
        "--snapshot-update"
    )


def _explain(config: pytest.Config, text: str, expected: SnapshotAssertion) -> list[str]:
    """Return the lines that describe a difference, in the form that syrupy gives them."""
    [lines, *_] = config.hook.pytest_assertrepr_compare(
        config=config, op="==", left=text, right=expected
    )
    return list(lines)


class _CaseSnapshots(TextSnapshots):
    """Snapshots in a folder below that of all cases."""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder for all cases."""
        collector = test_location.item.getparent(CaseCollector)
        if collector is None:
            raise TypeError(f"{test_location.nodeid} is not a case")
        return str(collector.root / cls.snapshot_dirname)


class _JsonSnapshots(_CaseSnapshots, JsonSnapshots):
    pass


class _SseSnapshots(_CaseSnapshots, SseSnapshots):
    pass
