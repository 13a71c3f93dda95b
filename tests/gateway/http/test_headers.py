import re

from hypothesis import given
from hypothesis import strategies as st

from adapters import Loss
from gateway.http.headers import backend_headers, client_headers, loss_header, read_headers

# A structured-field string and a display string (RFC 9651, 3.3.3 and 3.3.8).
STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
DISPLAY = r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'
MEMBER = re.compile(
    rf"(dropped|changed|invented);path=({STRING}|{DISPLAY})"
    rf";severity=(hint|capability|meaning)(?:;count=\d+)?;why=({STRING}|{DISPLAY})(?:, |$)"
)


def test_only_listed_headers_go_to_a_backend() -> None:
    hidden = {
        "authorization": "Bearer sk-client",
        "cookie": "session=1",
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "host": "gateway",
        "content-length": "2",
        "content-encoding": "zstd",
        "transfer-encoding": "chunked",
        "x-forwarded-for": "10.0.0.1",
    }
    forwarded = {
        "x-request-id": "one",
        "openai-organization": "org",
        "traceparent": "00-1-2-01",
        "x-codex-turn-metadata": "{}",
        "user-agent": "codex_exec/0.166.0",
    }
    assert {name.decode() for name, _ in backend_headers(hidden | forwarded)} == forwarded.keys()


def test_only_listed_headers_go_to_the_client() -> None:
    hidden = [
        (b"Content-Length", b"12"),
        (b"Content-Type", b"text/html"),
        (b"Connection", b"close"),
        (b"Set-Cookie", b"session=1"),
        (b"Server", b"nginx"),
        (b"Transfer-Encoding", b"chunked"),
    ]
    forwarded = [
        (b"Retry-After", b"4"),
        (b"X-RateLimit-Remaining-Requests", b"0"),
        (b"X-Request-Id", b"req_1"),
        (b"openai-processing-ms", b"7"),
    ]
    expected = [(name.lower(), value) for name, value in forwarded]
    assert client_headers(read_headers(hidden + forwarded)) == expected


def test_repeated_headers_are_joined_or_the_last_one_counts() -> None:
    headers = [
        (b"Content-Encoding", b"gzip"),
        (b"Connection", b"x-request-id"),
        (b"content-encoding", b"br"),
        (b"Connection", b"close"),
        (b"Retry-After", b"1"),
        (b"Retry-After", b"2"),
    ]
    assert dict(read_headers(headers)) == {
        "content-encoding": "gzip, br",
        "connection": "x-request-id, close",
        "retry-after": "2",
    }


def test_loss_is_a_member_of_a_list() -> None:
    losses = [
        Loss("changed", 'tools["a\\b"]', "größer", "capability"),
        Loss("dropped", "seed", "the Responses API does not support this field"),
    ]
    [(name, value)] = loss_header(losses)
    assert name == b"dragoman-loss"
    assert value.decode() == (
        r'changed;path="tools[\"a\\b\"]";severity=capability;why=%"gr%c3%b6%c3%9fer", '
        'dropped;path="seed";severity=hint;why="the Responses API does not support this field"'
    )


def test_no_header_without_losses() -> None:
    assert loss_header([]) == []


def test_adapted_losses_are_not_in_the_header() -> None:
    assert loss_header([Loss("changed", "tools[0]", "declared as a function", "adapted")]) == []


def test_gravest_losses_are_first_and_equal_ones_are_counted() -> None:
    losses = [Loss("dropped", f"input[{number}].metadata", "no place") for number in range(40)]
    losses.append(Loss("dropped", "tools[3]", "no web search", "capability"))
    [(_, value)] = loss_header(losses)
    assert value.decode() == (
        'dropped;path="tools[3]";severity=capability;why="no web search", '
        'dropped;path="input[*].metadata";severity=hint;count=40;why="no place"'
    )


def test_losses_that_do_not_fit_are_counted() -> None:
    losses = [Loss("dropped", f"field_{number}", "it has no place") for number in range(200)]
    losses += [Loss("dropped", f"tools[{number}]", "it has no place") for number in range(10)]
    [(_, value)] = loss_header(losses)
    listed, _, rest = value.decode().rpartition(", ")
    assert len(value) <= 4096
    assert rest == f"more;count={210 - len(MEMBER.findall(listed))}"


@given(path=st.text(), why=st.text())
def test_header_of_any_loss_is_valid(path: str, why: str) -> None:
    for _, value in loss_header([Loss("dropped", path[:300], why[:300])]):
        assert MEMBER.fullmatch(value.decode("ascii"))


def test_long_names_do_not_displace_other_losses() -> None:
    losses = [
        Loss("dropped", "x" * 9000, "y" * 9000, "capability"),
        Loss("dropped", "tools[0]", "\U0001f600" * 900, "capability"),
        *(Loss("dropped", f"field_{number}", "z" * 200) for number in range(100)),
        Loss("changed", "tools[1]", "grave", "capability"),
    ]
    [(_, value)] = loss_header(losses)
    assert len(value) <= 4096
    members = value.decode().split(", ")
    assert [member.partition(";")[0] for member in members[:3]] == ["dropped", "dropped", "changed"]
    assert 'path="xxx' in members[0]
    assert "..." in members[0]
    assert members[-1] == f"more;count={len(losses) - len(members) + 1}"
