"""RESULTS.md, from the results of all tools."""

import json
import tomllib

import plan
import score


def text(faults, folder):
    """The page: sums, tools side by side, and what each tool said of each fault."""
    told = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    # weir first, as the suite is its own; the others by name.
    told.sort(key=lambda each: (each["tool"] != "weir", each["tool"]))
    by_name = {each["tool"]: {row["fault"]: row for row in each["rows"]} for each in told}
    lines = ["# A suite of causes", ""]
    lines += [f"{len(faults)} faults planted behind real servers, and what tools said of them.", ""]
    lines += ["`studies/causes/run` makes this page; [README.md](README.md) says how it scores, and how to add to it.", ""]
    lines += ["## Tools", ""]
    for each in told:
        words = tomllib.loads((plan.HERE / "tools" / f"{each['tool']}.toml").read_text())["words"]
        lines += [f"- **{each['tool']}**: {words} {made(each)}"]
    lines += ["", "## Sums", "", "| verdict | " + " | ".join(each["tool"] for each in told) + " |"]
    lines += ["|---|" + "---:|" * len(told)]
    for verdict in score.VERDICTS:
        counts = [sum(row["verdict"] == verdict for row in by_name[each["tool"]].values()) for each in told]
        if any(counts):
            lines += [f"| {verdict} | " + " | ".join(map(str, counts)) + " |"]
    shares = [share(by_name[each["tool"]]) for each in told]
    lines += ["| right of those that were scored | " + " | ".join(shares) + " |"]
    lines += ["", "## Side by side", "", "| fault | planted | " + " | ".join(each["tool"] for each in told) + " |"]
    lines += ["|---|---|" + "---|" * len(told)]
    for fault in sorted(faults, key=lambda fault: (fault.group, fault.name)):
        verdicts = [by_name[each["tool"]].get(fault.name, {}).get("verdict", "not run") for each in told]
        link = f"[{fault.name}](faults/{fault.name}.toml)"
        lines += [f"| {link} | {cell(fault.planted)} | " + " | ".join(verdicts) + " |"]
    for each in told:
        lines += ["", f"## What {each['tool']} said", ""]
        lines += ["| fault | wanted | first cause told | culprit told | share | verdict |", "|---|---|---|---|---:|---|"]
        for fault in sorted(faults, key=lambda fault: (fault.group, fault.name)):
            lines += said(fault, by_name[each["tool"]].get(fault.name))
    return "\n".join(lines) + "\n"


def said(fault, row):
    """The row of a fault in a tool's table; none where the fault is none of the tool's."""
    if row is None or row["verdict"] == "not applicable":
        return []
    first = row["causes"][0] if row["causes"] else {}
    wanted = ", ".join(fault.expected.parts) + (f"; {fault.expected.culprit}" if fault.expected.culprit else "")
    portion = "" if first.get("share") is None else f"{first['share'] * 100:.0f} %"
    verdict = row["verdict"] + (f": {row['why']}" if row["why"] else "")
    causes = ", ".join(first.get("parts", []))
    cells = [fault.name, wanted, causes, first.get("culprit", ""), portion, verdict]
    return ["| " + " | ".join(cell(text) for text in cells) + " |"]


def share(rows):
    answers = ("right", "coarse", "wrong", "wrong blame", "nothing told")
    scored = [row for row in rows.values() if row["verdict"] in answers]
    right = sum(row["verdict"] == "right" for row in scored)
    return f"{right} of {len(scored)} ({right / len(scored) * 100:.0f} %)" if scored else "-"


def made(each):
    version = f"{each['version']}, " if each["version"] else ""
    note = f" {each['note']}" if each["note"] else ""
    return f"({version}{each['date']}, {each['cpus']} CPUs, Linux {each['kernel']}.{note})"


def cell(text):
    # Folders of a run have names of their own each time.
    return text.replace("|", "\\|").replace("\n", " ")[:220]
