"""A server that does not answer costs a bounded time, however many files there are."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from numscope.dumps import servers
from numscope.dumps.servers import NoAnswer, Server


class Files:
    """Files behind a server that answers with what it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.error: Exception | None = None

    def clock(self) -> float:
        return self.now

    def info(self, path: str) -> dict[str, Any]:
        self.asked += 1
        self.now += 8  # as long as some libraries try again
        if self.error:
            raise self.error
        return {"name": path}


def _ask_often(server: Server, files: Files, times: int) -> list[type[Exception]]:
    """What becomes of questions, one after the other."""
    errors: list[type[Exception]] = []
    for _ in range(times):
        try:
            server.ask(files.info, "x")
        except Exception as error:  # noqa: BLE001
            errors.append(type(error))
    return errors


def test_an_answer_is_passed_on() -> None:
    files = Files()
    assert Server(files.clock).ask(files.info, path="a") == {"name": "a"}


def test_a_server_that_is_gone_is_not_asked_for_a_while() -> None:
    files = Files()
    server = Server(files.clock)
    files.error = ConnectionError("refused")
    assert _ask_often(server, files, 1000) == [ConnectionError] * 8 + [NoAnswer] * 992
    assert files.now == 64
    with pytest.raises(NoAnswer, match=r"^the server has not answered for 64 s$"):
        server.ask(files.info, "x")
    files.now += 60  # and then it is asked once more
    assert _ask_often(server, files, 10) == [ConnectionError] + [NoAnswer] * 9
    files.now += 60
    files.error = None
    assert _ask_often(server, files, 10) == []


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x")])
def test_that_a_file_is_missing_is_an_answer(error: Exception) -> None:
    files = Files()
    server = Server(files.clock)
    files.error = error
    assert _ask_often(server, files, 100) == [type(error)] * 100
    assert files.asked == 100


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def info(self, _: str) -> None:
            never.wait()

    never = threading.Event()
    monkeypatch.setattr(servers, "_ANSWER_SECONDS", 0.05)
    with pytest.raises(NoAnswer, match=r"^no answer within 0 s$"):
        Server().ask(Silent().info, "x")
    never.set()


def test_a_slow_answer_says_nothing_of_a_server_that_answers_others() -> None:
    files = Files()
    server = Server(files.clock)

    def slow() -> None:
        for _ in range(8):  # what others ask meanwhile is answered
            server.ask(files.info, "x")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        server.ask(slow)
    assert files.now == 64
    assert _ask_often(server, files, 10) == []


def test_a_question_may_have_more_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_ANSWER_SECONDS", 0.01)
    assert Server().ask(time.sleep, 0.1, patience=10) is None
