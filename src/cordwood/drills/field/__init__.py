"""Drills in the field: a real broker, a real disk, a real fault, and a witness that judges what was seen.

    stage ──▶ drill ──▶ broker process ◀── writers, takers, readers ──▶ history ──▶ witness ──▶ verdict
                └─ fault: SIGKILL, a flipped bit, a full disk, a slow one, a cut wire, a power cut, a jumping clock …

`cordwood drill` runs them; `roster` names them. Each is a function over a `Stage`.
"""
