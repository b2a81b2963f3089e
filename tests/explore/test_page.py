"""The page itself, where marimo is installed; what is said where it is not."""

import http.client
import importlib.util
import socket
import subprocess
import time

import pytest
from typer.testing import CliRunner

import attnlab as al
from attnlab import explore
from attnlab.cli import app
from attnlab.explore import guard, server

needs_marimo = pytest.mark.skipif(
    importlib.util.find_spec("marimo") is None, reason="the extra explore is not installed"
)


@pytest.mark.parametrize(
    "wrong", [{"port": 0}, {"port": 70000}, {"host": ""}, {"host": 5}, {"browser": 1}]
)
def test_what_the_server_refuses(wrong):
    with pytest.raises(al.InvalidArgument, match=next(iter(wrong))):
        explore.serve(**wrong)


def test_without_marimo_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["explore"])
    assert result.exit_code == 2
    assert 'pip install "attnlab[explore]"' in result.stderr


def test_a_port_in_use_is_refused():
    other = socket.create_server(("127.0.0.1", 0))
    with other, pytest.raises(al.InvalidArgument, match="free at"):
        explore.serve(port=other.getsockname()[1], browser=False)


def test_the_page_is_served_here_alone_unless_asked_for():
    line = server.command(port=2718, host="127.0.0.1", browser=False)
    assert line[1] == "-P"  # nothing is taken from the current directory
    assert line[4:] == ["127.0.0.1", "2718"]


@needs_marimo
def test_every_cell_of_the_page_runs():
    from attnlab.explore.app import app as page

    _, found = page.run()
    assert found["part"].value == "Single-location regression"
    assert found["single"].value["activation"] == "erf"


@needs_marimo
def test_the_parts_of_the_page():
    from attnlab.explore import page

    told, form = page.experiment_form("marion2025/oracle-risk")
    assert "oracle attention" in told.text
    settings = {"lengths": "2,10", "points": "3"}
    result = page.run_experiment("marion2025/oracle-risk", settings).text
    for text in ("excess_risk", "length 2, dim 3", "Record"):
        assert text in result
    assert form.element.value["points"]
    stated = page.claim("marion2025/risk-formula", False).text
    checked = page.claim("marion2025/risk-formula", True).text
    assert "confirmed" not in stated
    assert "confirmed" in checked or "refuted as stated" in checked
    wrong = page.shown(page.run_experiment, "marion2025/oracle-risk", {"points": "-1"})
    assert "points" in wrong.text
    heads = page.in_context(page.in_context_controls().value).text
    assert "Bayes risk" in heads


@needs_marimo
def test_labels_are_no_markdown():
    from attnlab.explore import page

    assert page._escaped("a_b <x> *c*") == r"a\_b \<x\> \*c\*"


@pytest.mark.parametrize(
    ("host", "origin", "answer"),
    [
        ("127.0.0.1:2718", None, True),
        ("localhost:2718", "http://localhost:2718", True),
        ("LOCALHOST:2718", "http://localhost:2718", True),
        ("[::1]:2718", "http://[::1]:2718", True),
        ("192.168.0.7:2718", None, True),  # no page can have an address of ours for its name
        (socket.gethostname(), None, True),
        ("evil.example:2718", None, False),
        ("evil.example:2718", "http://evil.example:2718", False),  # a name that leads here
        ("localhost.evil.example", None, False),
        ("127.0.0.1:2718", "http://evil.example", False),
        ("127.0.0.1:2718", "http://127.0.0.1:9999", False),
        ("127.0.0.1:2718", "null", False),
        ("127.0.0.1:2718", "", False),
        ("", None, False),
        (None, None, False),
    ],
)
def test_who_may_ask(host, origin, answer):
    assert guard.may_ask(host, origin, guard.names_of("127.0.0.1")) is answer


def test_the_page_is_told_to_load_nothing_from_elsewhere():
    """Each answer carries the policy, beside the headers that it has."""
    import asyncio

    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b"1")]})
        await send({"type": "http.response.body", "body": b"page"})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": [(b"host", b"127.0.0.1:2718")]}
    asyncio.run(guard.guarded(app, guard.names_of("127.0.0.1"))(scope, None, send))
    headers = dict(sent[0]["headers"])
    assert headers[b"etag"] == b"1"
    assert headers[b"content-security-policy"].startswith(b"default-src 'self'")
    assert b"http" not in headers[b"content-security-policy"]
    assert sent[1]["body"] == b"page"


@needs_marimo
def test_the_server_answers_its_own_page_alone(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.marimo.runtime]\npythonpath = ["."]\n')
    for name in ("marimo", "attnlab", "uvicorn", "scipy"):
        (tmp_path / f"{name}.py").write_text(f"open('{name}.ran', 'w').close()")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = f"127.0.0.1:{port}"
    command = server.command(port=port, host="127.0.0.1", browser=False)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                if asked(port, {"Host": own}, patient=True) is not None:
                    break
                time.sleep(0.2)
            assert asked(port, {"Host": own}) == 200
            assert asked(port, {"Host": own, "Origin": f"http://{own}"}) == 200
            assert asked(port, {"Host": "evil.example"}) == 403
            assert asked(port, {"Host": own, "Origin": "http://evil.example"}) == 403
            socketed = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            }
            page = f"/ws?session_id=s_{'a' * 6}"
            assert asked(port, {**socketed, "Host": own}, page) == 101
            foreign = {**socketed, "Host": own, "Origin": "http://evil.example"}
            assert asked(port, foreign, page) == 403
            assert list(tmp_path.glob("*.ran")) == []
        finally:
            process.kill()


def asked(port, headers, page="/", *, patient=False):
    """The status of the answer; None (if patient) where there is none yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest("GET", page, skip_host=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    except OSError:
        if not patient:
            raise
        return None
    finally:
        connection.close()
