"""What libbpf-tools' offcputime says of a task: the longest blocked time of the servers' tasks, or their CPU time."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

# What a function in a stack means to a reader, the first that is found; None: the task waits for work.
MEANINGS = (
    (r"do_signal_stop|ptrace_stop|do_freezer_trap|__refrigerator", ["stopped"]),
    (r"nanosleep", ["wait_timer"]),
    (r"flock_lock_inode_wait|locks_lock_inode_wait|fcntl_setlk|do_lock_file_wait|semtimedop", ["wait_lock"]),
    (r"futex_wait", ["wait_lock"]),
    (r"io_schedule|folio_wait|fsync|submit_bio_wait|jbd2|wait_on_buffer|fuse_", ["wait_disk"]),
    (r"inet_csk_accept|unix_accept|ep_poll|do_epoll|do_poll|do_sys_poll|do_select|io_cqring_wait|sigtimedwait", None),
    (r"sk_stream_wait_memory|tcp_sendmsg", ["wait_network"]),
    (r"inet_stream_connect|inet_wait_for_connect", ["connect", "wait_process", "wait_network"]),
    (r"sk_wait_data|wait_for_more_packets|unix_stream|pipe_read|do_wait|tcp_recvmsg", ["wait_process", "wait_network"]),
    (r"irqentry_exit|preempt_schedule|exit_to_user_mode", ["wait_cpu"]),
)


def tasks(roots):
    """Threads of these processes and of their children, with the CPU time of each in ticks."""
    parents, found = {}, {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
                parents[int(process.name)] = int(fields[1])
            except (OSError, IndexError):
                continue
    for pid in parents:
        at = pid
        while at and at not in roots:
            at = parents.get(at)
        if not at:
            continue
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            try:
                name, rest = (thread / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except (OSError, IndexError):
                continue
            fields = rest.split()
            found[int(thread.name)] = (name, int(fields[11]) + int(fields[12]))
    return found


def stacks(text):
    """Functions, name, thread and microseconds of each stack of the output."""
    functions = []
    for line in text.splitlines():
        end = re.match(r"\s+-\s+(.*) \((\d+)\)\s*$", line)
        if end:
            name, thread = end.group(1), int(end.group(2))
        elif re.match(r"\s+\d+\s*$", line):
            yield functions, name, thread, int(line)
            functions = []
        elif line.strip():
            functions.append(line.split()[-1])


def main():
    task = json.loads(Path(sys.argv[1]).read_text())
    roots = {pid for _, _, pid in task["told"]}
    before = tasks(roots)
    # Blocks shorter than 20 us are no cause of a slow response.
    command = ["offcputime", "-u", "-m", "20", str(task["seconds"])]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip()[-300:])
    after = tasks(roots)
    known = {**before, **after}
    blocked = Counter()
    for functions, name, thread, microseconds in stacks(done.stdout):
        if thread not in known:
            continue
        whole = " ".join(functions)
        for pattern, parts in MEANINGS:
            at = re.search(pattern, whole)
            if at:
                if parts:
                    blocked[(tuple(parts), name, at.group(0))] += microseconds
                break
    tick = 1e6 / os.sysconf("SC_CLK_TCK")
    for thread, (name, ticks) in after.items():
        used = (ticks - before.get(thread, (name, 0))[1]) * tick
        if used > 0:
            blocked[(("run",), name, "on the CPU")] += used
    causes = []
    for (parts, name, function), microseconds in blocked.most_common(5):
        # Who waits for another is not the culprit, and the other one is not told.
        own = name if parts[0] in ("run", "wait_timer", "stopped") else ""
        text = f"{own or 'a task'}: {microseconds / 1e3:.0f} ms {'' if function.startswith('on') else 'in '}{function}"
        causes.append({"parts": list(parts), "culprit": own, "text": text})
    print(json.dumps({"causes": causes}))


main()
