"""Drives gdb on every rank of a job on this host, and merges what they print: ranks that print the same are shown once.

    gdb_all.py [--release] JOB COMMAND..
    pmixrun --debug "gdb_all.py --release COMMAND.." ..

Each gdb attaches to its rank and carries out the commands. With --release, a job that waits in init (`pmixrun --stop-in-init`) goes on once all have attached, so
that breakpoints are set before any rank leaves init. At their ends the gdbs detach, and the ranks go on. Started by `pmixrun --debug`, it knows the job.
"""

import collections
import concurrent.futures
import json
import os
import re
import socket
import subprocess
import sys
import threading

PMIX = os.environ.get("PMIX", "pmix")
ATTACHED = "@attached"


def ranks_of(job):
    """Rank and pid of the processes of the job on this host, and how many are elsewhere."""
    report = json.loads(subprocess.run([PMIX, "ps", "--json", job], check=True, stdout=subprocess.PIPE).stdout)
    procs = [proc for server in report["servers"] for entry in server["jobs"] for proc in entry["procs"]]
    here = {proc["proc"]["rank"]: proc["pid"] for proc in procs if proc["node"] == socket.gethostname()}
    return here, len(procs) - len(here)


def debug(pid, commands, meeting):
    """What gdb prints of its commands."""
    words = ["gdb", "--batch", "-nx", "-q", "-iex", "set debuginfod enabled off", "-p", str(pid), "-ex", f"echo {ATTACHED}\\n"]
    words += [word for command in commands for word in ("-ex", command)]
    gdb = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    before = []
    for line in gdb.stdout:
        if line.startswith(ATTACHED):
            break
        before.append(line)
    else:
        meeting.abort()
        return f"gdb could not attach:\n{''.join(before)}"
    try:
        meeting.wait()
    except (threading.BrokenBarrierError, subprocess.CalledProcessError):
        gdb.terminate()  # it detaches
        return "gdb was stopped before its commands were done: another gdb could not attach, or the job could not be released"
    text = gdb.stdout.read()
    gdb.wait()
    return text


def alike(text):
    """The text without what differs from process to process: addresses, pids, threads."""
    return re.sub(r"0x[0-9a-f]+", "0x..", re.sub(r"\b(LWP|process|Thread) \S+", r"\1 ..", text)).strip()


def ranges(ranks):
    """Such as 0-3,7."""
    parts = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] + 1 == rank:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def main():
    words = sys.argv[1:]
    is_release = words[:1] == ["--release"]
    named = os.environ.get("PMIXRUN_JOB")
    job, *commands = ([named] if named else []) + (words[1:] if is_release else words)
    here, elsewhere = ranks_of(job)
    if not here:
        sys.exit(f"job {job} has no ranks on this host")
    release = [PMIX, "release", job]
    meeting = threading.Barrier(len(here), lambda: is_release and subprocess.run(release, check=True))
    groups = collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(len(here)) as pool:
        for rank, text in zip(here, pool.map(lambda pid: debug(pid, commands, meeting), here.values())):
            groups[alike(text)].append(rank)
    for text, ranks in sorted(groups.items(), key=lambda group: min(group[1])):
        print(f"ranks {ranges(ranks)}:")
        print("".join(f"  {line}\n" for line in text.splitlines()), end="")
    if elsewhere:
        print(f"{elsewhere} ranks are on other hosts: run this there, too")
    if meeting.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
