"""The Dockerfile, read: who runs, what lasts, what is pinned. Its steps themselves run in test_package."""

import json
import re
import subprocess
import sys

from tests.packaging.conftest import ROOT

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
STEPS = [
    (line.split(" ", 1)[0], line.split(" ", 1)[1])
    for line in DOCKERFILE.splitlines()
    if line.strip() and not line.startswith("#")
]


def said(name: str) -> list[str]:
    return [rest for step, rest in STEPS if step == name]


def last_stage() -> list[tuple[str, str]]:
    return STEPS[max(n for n, (step, _) in enumerate(STEPS) if step == "FROM") :]


def test_nobody_is_root() -> None:
    (user,) = [rest for step, rest in last_stage() if step == "USER"]
    assert user not in ("root", "0")
    after = [step for step, _ in last_stage()]
    assert "RUN" not in after[after.index("USER") :]


def test_every_command_is_in_exec_form() -> None:
    for name in ("ENTRYPOINT", "CMD", "RUN", "VOLUME"):
        for rest in said(name):
            assert isinstance(json.loads(rest), list), rest
    assert json.loads(said("ENTRYPOINT")[0]) == ["cordwood"]


def test_the_data_is_on_a_volume_that_the_broker_uses() -> None:
    assert json.loads(said("VOLUME")[0]) == ["/data"]
    assert "CORDWOOD_DATA=/data" in said("ENV")[0]


def test_it_says_whether_it_is_well() -> None:
    (health,) = said("HEALTHCHECK")
    command = json.loads(health.partition("CMD ")[2])
    assert command[0] == "python"
    assert "/v1/healthz" in command[2]
    compile(command[2], "healthcheck", "exec")


def test_it_is_slim_and_pinned_by_the_lock() -> None:
    assert all(re.match(r"python:3\.\d+-slim-\w+", image) for image in said("FROM"))
    runs = " ".join(said("RUN"))
    assert runs.count("--require-hashes") == 2
    assert "--no-deps --no-index wheels" in runs
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for rest in said("COPY"):
        if "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists()
                assert f"!{name}" in ignored


def test_the_runtime_lock_is_the_brokers_part_of_the_lock() -> None:
    script = [sys.executable, str(ROOT / "packaging" / "runtime_lock.py")]
    found = subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    names = set(re.findall(r"^([\w.-]+)==", found, re.MULTILINE))
    assert {"pyarrow", "uvloop", "click", "markdown-it-py"} <= names  # the last is asked for by rich alone
    assert not names & {"pyspark", "pytest", "hypothesis", "schemathesis", "redis", "hatchling", "anyio"}
    assert found.count("==") <= found.count("--hash=sha256:")
    built = subprocess.run(
        [*script, "--of", "hatchling"], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    assert "hatchling==" in built
    assert "packaging==" in built
