"""A tool: lists the processes of a server, and follows its events until it stops. Standard input is what `pmix info --json` prints."""

import json
import sys

from session import Session, pb, queries, types


def query(session, key, **qualifiers):
    """The value of a key that is queried."""
    infos = [types.Info(key=name, value=types.Value(string=text)) for name, text in qualifiers.items()]
    wanted = queries.QueryInfo(queries=[types.Query(keys=[key], qualifiers=infos)])
    results = session.request(query_info=wanted).query.results
    found = [info for result in results for info in result.value.data_array.info.items if info.key == key]
    return found[0].value


def show(value):
    """A value as text, whatever its type."""
    kind = value.WhichOneof("kind")
    data = getattr(value, kind) if kind else ""
    return f"{data.nspace}:{data.rank}" if kind == "proc" else str(data).strip().replace("\n", " ")


session = Session(json.load(sys.stdin)["uri"], "watch.py", tool=pb.ToolIdentity())
session.request(register_events=pb.RegisterEvents())  # all codes; what comes from now on is kept until it is read
for nspace in query(session, "pmix.qry.ns").string.split(","):
    table = query(session, "pmix.qry.ptable", **{"pmix.nspace": nspace}).data_array.proc_info
    for rank, host, pid in zip(table.procs.rank, table.hostname, table.pid):
        print(f"{nspace}:{rank} has pid {pid} on {table.hostnames[host - 1] if host else 'an unknown node'}", flush=True)
for push in session.pushes():
    if push.HasField("lagged"):
        print(f"{push.lagged.missed} events were lost: this program is too slow")
    elif push.HasField("event"):
        event = push.event.event
        told = " ".join(f"{info.key}={show(info.value)}" for info in event.info)
        print(f"event {event.code} {told}", flush=True)
