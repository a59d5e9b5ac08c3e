"""A rank of a job: tells its peers where it is to be reached, and learns the same of them."""

import os

from session import WILDCARD, Session, pb, types

GLOBAL = 3  # scope: all processes of the job

me = types.Proc(nspace=os.environ["PMIX_NAMESPACE"], rank=int(os.environ["PMIX_RANK"]))
session = Session(os.environ["PMIX_GRPC_URI"], "hello.py", client=me)
job = types.Proc(nspace=me.nspace, rank=WILDCARD)
size = session.request(get=pb.Get(proc=job, key="pmix.job.size")).get.value.uint32
endpoint = types.Value(string=f"{session.welcome.hostname}:{4000 + me.rank}")
session.request(commit=pb.Commit(entries=[pb.PutEntry(scope=GLOBAL, key="endpoint", value=endpoint)]))
collect = types.Info(key="pmix.collect", value=types.Value(bool=True))
modex = pb.Modex.FromString(session.request(fence=pb.Fence(directives=[collect])).fence.modex)
peers = {data.proc.rank: data.entries[0].value.string for data in modex.procs}
print(f"rank {me.rank} of {size}: peers {' '.join(f'{rank}={peers[rank]}' for rank in sorted(peers))}")
session.close()
