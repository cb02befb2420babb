"""What `weir explain` says of a task."""

import json
import subprocess
import sys
from pathlib import Path

task = json.loads(Path(sys.argv[1]).read_text())
command = [task["weir"], "explain", "--json", "--load", task["url"], "--run", f"{task['folder']}/weir-run"]
for how, which, _ in task["told"]:
    command += [f"--{how}", str(which)]
command += [*task["load"], "-d", f"{task['seconds']}s", "--watch", "disk,locks,timers"]
if task["packs"]:
    command += ["--packs", "auto"]
done = subprocess.run(command, capture_output=True, text=True, check=False)
# 3: an objective is missed, which is no failure.
if done.returncode not in (0, 3):
    sys.exit(done.stderr.strip()[-400:])
report = json.loads(done.stdout)
causes = []
for cause in report["causes"]:
    who = cause.get("who") or []
    causes.append({
        "parts": [cause["part"]], "share": cause["share"], "text": cause["text"], "culprit": who[0][0] if who else "",
    })
joined = report.get("joined_fraction")
print(json.dumps({"causes": causes, "joined": joined, "warnings": report.get("warnings", [])[:3]}))
