"""`cordwood run` around real commands, with a broker and without one."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cordwood.client.client import Client
from cordwood.edge.look import events, look, of_execution, outboxes
from tests.edge.left import left
from tests.edge.scripted import Scripted

NOBODY = "http://127.0.0.1:9"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CORDWOOD_")}


def words(
    root: Path, *command: object, topic: str = "t", execution: str = "e/1", endpoint: str = NOBODY
) -> list[str]:
    start = [sys.executable, "-m", "cordwood", "run", "--topic", topic, "--execution", execution]
    return [*start, "--outbox", str(root), "--endpoint", endpoint, "--", *map(str, command)]


def run(root: Path, *command: object, stdin: bytes | None = None, **names: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words(root, *command, **names), input=stdin, capture_output=True, check=False, timeout=60, env=ENVIRONMENT
    )


def start(root: Path, *command: object, **names: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(
        words(root, *command, **names), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    return started


def stored(client: Client, topic: str) -> list[Any]:
    return list(client.read(topic, partition=0))


def streams(messages: list[Any]) -> list[tuple[str, bytes]]:
    return [(dict(message.headers)["stream"].decode(), message.value) for message in messages]


def output(messages: list[Any], stream: str) -> bytes:
    """Return a stream as it was, from its messages alone."""
    found = b""
    for message in messages:
        headers = dict(message.headers)
        if headers["stream"] == stream.encode():
            found += message.value + (b"" if headers.get("newline") == b"no" else b"\n")
    return found


def test_lines_start_and_exit_become_messages_in_order(client: Client, running: str, topic: str, root: Path) -> None:
    script = "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf 'three\\r\\n\\nfour'; exit 3"
    done = run(root, "sh", "-c", script, topic=topic, endpoint=running)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"one\nthree\r\n\nfour", b"two\n")
    messages = stored(client, topic)
    assert streams(messages)[1:-1] == [
        ("stdout", b"one"),
        ("stderr", b"two"),
        ("stdout", b"three\r"),
        ("stdout", b""),
        ("stdout", b"four"),
    ]
    assert [dict(message.headers)["seq"] for message in messages] == [b"%d" % n for n in range(7)]
    assert {message.key for message in messages} == {b"e/1"}
    assert messages[0].json()["command"] == ["sh", "-c", script]
    last = messages[-1].json()
    assert (last["command"], last["code"], last["signal"]) == (["sh", "-c", script], 3, None)
    assert last["duration_ms"] >= 400
    assert outboxes(root) == []
    assert [path.name for path in (root / "archive").iterdir()] == ["e%2F1.wal.zst"]


def test_binary_output_is_passed_on_and_recorded_to_the_byte(
    client: Client, running: str, topic: str, root: Path, tmp_path: Path
) -> None:
    noise = os.urandom(1 << 20)
    (tmp_path / "noise").write_bytes(noise)
    done = run(root, "cat", tmp_path / "noise", topic=topic, endpoint=running)
    assert (done.returncode, done.stdout == noise, done.stderr) == (0, True, b"")
    assert output(stored(client, topic), "stdout") == noise


def test_a_line_that_is_too_long_arrives_in_parts(client: Client, running: str, topic: str, root: Path) -> None:
    code = "print('x' * 500_000); print('short')"
    done = run(root, sys.executable, "-c", code, topic=topic, endpoint=running)
    assert done.stdout == b"x" * 500_000 + b"\nshort\n"
    messages = stored(client, topic)[1:-1]
    assert [(len(one.value), dict(one.headers).get("cut")) for one in messages] == [
        (204_800, b"1"),
        (204_800, b"2"),
        (90_400, b"3"),
        (5, None),
    ]
    assert output(messages, "stdout") == done.stdout


def test_output_comes_when_it_is_written_and_not_when_it_is_recorded(root: Path) -> None:
    running = start(root, "sh", "-c", "echo ready; read line; echo got")
    running.kill()
    running.communicate()
    process = subprocess.Popen(
        words(root, "sh", "-c", "printf prompt; read line; printf $line", execution="e/2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.read(6) == b"prompt", "no newline is waited for"
    process.stdin.write(b"answer\n")
    process.stdin.flush()
    assert process.stdout.read() == b"answer"
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (["sh", "-c", "exit 42"], 42, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["there-is-no-such-command"], 127, "cordwood: there-is-no-such-command: command not found"),
        (["/etc/passwd"], 126, "cordwood: /etc/passwd: Permission denied"),
    ],
)
def test_the_exit_code_is_the_commands(
    client: Client, running: str, topic: str, root: Path, command: list[str], code: int, text: str
) -> None:
    done = run(root, *command, topic=topic, endpoint=running)
    assert (done.returncode, done.stderr.decode().strip()) == (code, text)
    first, last = stored(client, topic)
    assert first.json()["command"] == command
    assert last.json()["code"] == code
    assert last.json()["signal"] == {137: "SIGKILL", 143: "SIGTERM"}.get(code)


def test_a_script_that_does_not_say_whose_it_is_is_the_shells(root: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"; exit 9\n')
    script.chmod(0o700)
    done = run(root, script, "a b")
    assert (done.returncode, done.stdout) == (9, f"{script} a b\n".encode())
    path = {**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = subprocess.run(words(root, "script", "x"), capture_output=True, check=False, timeout=60, env=path)
    assert (found.returncode, found.stdout) == (9, f"{script} x\n".encode())


COUNTER = """
import signal, sys, time
counts = dict.fromkeys((signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1), 0)
def count(number, frame):
    counts[number] += 1
for number in counts:
    signal.signal(number, count)
print("ready", flush=True)
until = time.monotonic() + 30
for press in range(int(sys.argv[1])):
    while sum(counts.values()) <= press and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    print("ready", flush=True)
time.sleep(0.5)
print({signal.Signals(number).name: times for number, times in counts.items() if times}, flush=True)
sys.exit(7)
"""


PRESSES = 20  # a second signal may come so soon that it counts as the first; not every time


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_a_signal_reaches_the_command_once(root: Path, name: str) -> None:
    process = start(root, sys.executable, "-c", COUNTER, "1")
    process.send_signal(signal.Signals[name])
    out, _ = process.communicate(timeout=60)
    assert out.decode().split("\n")[-2] == str({name: 1})
    assert process.returncode == 7


def test_a_command_that_dies_of_a_signal_gives_128_and_its_number(root: Path) -> None:
    process = start(root, "sh", "-c", "echo ready; exec sleep 60")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


@pytest.mark.parametrize("how", ["pressed", "killed"])
def test_ctrl_c_on_a_terminal_reaches_the_command_once_and_so_does_a_kill(root: Path, how: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        command = words(root, sys.executable, "-c", COUNTER, str(PRESSES))
        os.execve(command[0], command, ENVIRONMENT)
    said = b""
    try:
        sent = 0
        while True:
            try:
                said += os.read(terminal, 1024)
            except OSError:
                break
            if said.count(b"ready") > sent and sent < PRESSES:
                sent += 1
                if how == "pressed":
                    os.write(terminal, b"\x03")
                else:
                    os.kill(pid, signal.SIGINT)
    finally:
        os.close(terminal)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert b"{'SIGINT': %d}" % PRESSES in said
    assert sent == PRESSES
    assert code == 7


def test_the_commands_signals_are_as_they_were(root: Path) -> None:
    def masks(said: bytes) -> list[int]:
        return [int(line.split()[1], 16) & 0x7FFFFFFF for line in said.splitlines()]  # above are the C library's own

    command = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    plain = subprocess.run(command, capture_output=True, check=True)
    assert masks(run(root, *command).stdout) == masks(plain.stdout)


def test_the_command_has_the_files_that_were_given_and_none_of_ours(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        code = "import os; print([n for n in range(100) if os.path.lexists(f'/proc/self/fd/{n}')])"
        command = words(root, sys.executable, "-c", code)
        given_too = (given.fileno(),)
        done = subprocess.run(command, stdout=subprocess.PIPE, pass_fds=given_too, check=True, env=ENVIRONMENT)
    assert done.stdout.decode().strip() == str([0, 1, 2, *given_too])


def test_closed_streams_are_no_trouble(root: Path, tmp_path: Path) -> None:
    command = words(root, "sh", "-c", "echo lost; echo lost >&2; exit 6")
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(closed, check=False, timeout=60, env=ENVIRONMENT).returncode == 6
    (path,) = outboxes(root)
    assert look(path).pending == 4


def test_a_reader_that_goes_away_ends_the_command_as_it_would_without_us(root: Path) -> None:
    process = subprocess.Popen(words(root, "yes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(60) == 128 + signal.SIGPIPE


def test_a_stream_that_nobody_reads_does_not_hold_up_the_other(root: Path) -> None:
    code = (
        "import sys, threading; t = threading.Thread(target=lambda: sys.stdout.write('x' * 2_000_000)); t.start();"
        "import time; time.sleep(0.3); sys.stderr.write('still here\\n'); sys.stderr.flush(); t.join()"
    )
    process = subprocess.Popen(
        words(root, sys.executable, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline() == b"still here\n"
    assert len(process.stdout.read()) == 2_000_000
    process.stderr.read()
    assert process.wait(30) == 0


def test_children_that_keep_the_pipe_open_are_not_waited_for(root: Path) -> None:
    began = time.monotonic()
    done = run(root, "sh", "-c", "(sleep 30; echo late) & echo done")
    assert done.stdout == b"done\n"
    assert time.monotonic() - began < 25


def test_all_that_the_command_wrote_is_passed_on_to_a_slow_reader_who_does_not_make_it_last(
    root: Path, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    process = subprocess.Popen(
        words(root, "sh", "-c", f"sleep 30 & head -c 130000 /dev/zero; touch {over}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    until = time.monotonic() + 20  # two full pipes, unless those of this machine are smaller
    while not over.exists() and time.monotonic() < until:
        time.sleep(0.01)
    ended = over.exists()
    time.sleep(2)
    reads_ms = time.time() * 1000
    assert len(process.stdout.read()) == 130_000
    assert process.wait(30) == 0
    if ended:
        (outbox,) = outboxes(root)
        first, *_, last = events(outbox)
        assert first.timestamp_ms + json.loads(last.value or b"")["duration_ms"] < reads_ms


def test_without_a_broker_nothing_changes_for_the_command_and_all_is_sent_later(
    client: Client, running: str, topic: str, root: Path
) -> None:
    for number in (1, 2):
        code = f"print(*range({number}000, {number}500), sep='\\n')"
        done = run(root, sys.executable, "-c", code, topic=topic)
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 500
        (line,) = done.stderr.decode().splitlines()
        assert "502 events of e/1 are kept" in line
        assert "cordwood outbox send" in line
    assert stored(client, topic) == []
    sent = subprocess.run(
        [sys.executable, "-m", "cordwood", "outbox", "send", "--dir", root, "--endpoint", running, "--json"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert sent.returncode == 0, sent
    assert json.loads(sent.stdout) == {"sent": 1004, "remain": 0, "parked": 0, "error": None, "damaged": []}
    lines = [value for stream, value in streams(stored(client, topic)) if stream == "stdout"]
    assert lines == [b"%d" % number for first in (1000, 2000) for number in range(first, first + 500)]
    assert outboxes(root) == []


def test_a_broker_that_does_not_answer_is_waited_for_a_while_but_not_by_who_reads_the_output(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start(root, "sh", "-c", "echo ready; exit 9", endpoint=place)
        assert process.stdout is not None
        assert process.stdout.read() == b"", "the output ends with the command"
        assert process.poll() is None
        _, said = process.communicate(timeout=60)
    assert process.returncode == 9
    assert b"3 events of e/1 are kept" in said


def test_a_broker_that_is_slow_is_waited_for(root: Path) -> None:
    with Scripted([]) as slow:
        slow.gate.clear()
        process = start(root, "echo", "ready", endpoint=slow.endpoint)
        assert process.stdout is not None
        process.stdout.read()
        time.sleep(1)
        slow.gate.set()
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
    assert outboxes(root) == []


def test_what_is_written_is_on_disk_soon_though_the_command_goes_on(root: Path) -> None:
    process = start(root, "sh", "-c", "echo ready; exec sleep 60")
    (path,) = of_execution(root, "e/1")
    while look(path).pending < 2:
        assert process.poll() is None, "it was recorded only at the end"
        time.sleep(0.1)
    process.terminate()
    process.communicate(timeout=60)


def test_a_signal_ends_the_waiting_for_a_broker(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = start(root, "sh", "-c", "echo ready; exit 9", endpoint=place)
        assert process.stdout is not None
        process.stdout.read()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 9


def test_the_next_run_sends_what_was_left(client: Client, running: str, topic: str, root: Path) -> None:
    left(root, "e/1", topic, running, b"first")
    run(root, "echo", "second", topic=topic, endpoint=running)
    values = [message.value for message in client.read(topic, partition=0)]
    assert values[0] == b"first"
    assert b"second" in values


def test_killed_in_the_middle_what_was_recorded_is_sent_later(
    client: Client, running: str, topic: str, root: Path
) -> None:
    code = "import time\nprint('ready', flush=True)\nfor n in range(10**6): print(n, flush=True); time.sleep(0.001)"
    process = start(root, sys.executable, "-c", code, topic=topic)
    assert process.stdout is not None
    until = time.monotonic() + 30
    while time.monotonic() < until:
        process.stdout.readline()
        if int(process.stdout.readline()) > 150 and look(of_execution(root, "e/1")[0]).pending > 100:
            break
    process.kill()
    process.communicate(timeout=60)
    (path,) = of_execution(root, "e/1")
    kept = look(path)
    assert not kept.living
    assert kept.pending > 100
    command = [sys.executable, "-m", "cordwood", "outbox", "send", "--dir", str(root), "--endpoint", running]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    messages = streams(stored(client, topic))
    assert len(messages) == kept.pending
    assert messages[0][0] == "start"
    assert [value for _, value in messages[1:]] == [b"ready", *(b"%d" % n for n in range(kept.pending - 2))]


def test_an_outbox_that_cannot_be_used_is_said_before_anything_runs(root: Path, tmp_path: Path) -> None:
    root.write_text("a file, and no directory")
    done = run(root, "touch", tmp_path / "ran")
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert "nothing was run" in line
    assert str(root) in line
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("names", [{"topic": "a//b"}, {"execution": ""}, {"endpoint": "ftp://x"}])
def test_what_cannot_be_is_a_usage_error_before_anything_runs(
    root: Path, tmp_path: Path, names: dict[str, str]
) -> None:
    done = run(root, "touch", tmp_path / "ran", **names)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "ran").exists()


def test_an_execution_that_runs_already_is_refused(root: Path) -> None:
    process = start(root, "sh", "-c", "echo ready; exec sleep 60")
    done = run(root, "echo", "x")
    assert (done.returncode, done.stdout) == (75, b"")
    assert b"is running already" in done.stderr
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_an_outbox_that_breaks_later_does_not_disturb_the_command(root: Path, tmp_path: Path) -> None:
    """There is room for 50 events."""
    limited = tmp_path / "limited.py"
    limited.write_text(
        "import sys\n"
        "from cordwood.edge.log import Log\n"
        "from cordwood.errors import Full\n"
        "append, kept = Log.append, []\n"
        "def failing(self, drafts):\n"
        "    if len(kept) + len(drafts) > 50:\n"
        "        raise Full('no room on this disk')\n"
        "    kept.extend(drafts)\n"
        "    return append(self, drafts)\n"
        "Log.append = failing\n"
        "from cordwood.cli.main import main\n"
        "main()\n"
    )
    command = words(root, sys.executable, "-c", "print(*range(1000), sep='\\n'); raise SystemExit(5)")
    done = subprocess.run(
        [command[0], str(limited), *command[3:]], capture_output=True, check=False, timeout=60, env=ENVIRONMENT
    )
    assert done.returncode == 5
    assert len(done.stdout.splitlines()) == 1000
    first, second, third = done.stderr.decode().splitlines()
    assert "no room on this disk" in first
    assert "952 events of e/1 were not recorded" in second
    assert "50 events of e/1 are kept" in third
