#!/usr/bin/env python3
"""Scores what a tool said of a fault.

score.py FAULT.toml     reads the answer from standard input, as JSON, and prints the verdict, as JSON

An answer is {"causes": [{"parts": [...], "culprit": "...", "share": 0.8, "text": "..."}]}, the first cause first.
A tool whose words are coarser than the causes names all that its word may mean in `parts`; `culprit` is what it puts the
time down to (a process, a file, a lock, a statement, an address), or empty.
"""

import json
import re
import sys
from pathlib import Path

import plan

# From the best to the worst.
VERDICTS = ("right", "coarse", "wrong", "wrong blame", "nothing told", "failed", "skipped", "not applicable")


def verdict(expected, answer):
    """The verdict, and in words what is not right."""
    causes = answer.get("causes") or []
    if not causes:
        return "nothing told", "no cause is told"
    first = causes[0]
    parts, culprit = first.get("parts") or [], first.get("culprit") or ""
    text, share = first.get("text") or "", first.get("share")
    is_named = not expected.culprit or re.search(expected.culprit, culprit or text) is not None
    if not is_named and culprit and re.search(expected.innocent, culprit):
        return "wrong blame", f"`{culprit}` is innocent"
    faults = []
    if not set(parts) & set(expected.parts):
        faults.append(f"the cause is not {' or '.join(expected.parts)}")
    if not is_named:
        mismatch = f"the culprit `{culprit}` does not match {expected.culprit}"
        faults.append(mismatch if culprit else "no culprit is named")
    if share is not None and not expected.share[0] <= share <= expected.share[1]:
        faults.append(f"the share {share:.2f} is not within {expected.share[0]:g} to {expected.share[1]:g}")
    if faults:
        return "wrong", "; ".join(faults)
    if not set(parts) <= set(expected.parts):
        return "coarse", f"it may mean any of {', '.join(parts)}"
    return "right", ""


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        fault = plan.read(Path(arguments[0]))
        answer = json.load(sys.stdin)
    except (plan.PlanError, json.JSONDecodeError) as error:
        print(f"score: {error}", file=sys.stderr)
        return 2
    told, why = verdict(fault.expected, answer)
    print(json.dumps({"verdict": told, "why": why}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
