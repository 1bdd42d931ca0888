"""The first minute."""

import subprocess
import sys


def test_the_demo_counts_what_is_on_disk_and_loses_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", "cordwood", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, stored twice 0" in done.stdout
    assert "never delivered 0, not acked 0" in done.stdout
    assert done.stdout.count("kill -9") == 3
