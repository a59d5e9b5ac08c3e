"""A rank of a job in Python: tells its peers where it is to be reached, and learns the same of them.

    pip install grpcio grpcio-tools
    PYTHONPATH=pmix-proto/proto target/debug/pmixrun -n 4 python3 examples/python/hello.py
"""

import os
import queue

import grpc

# compiled on the fly from the .proto files below PYTHONPATH; protoc makes files of them for good
pb, services = grpc.protos_and_services("pmix/v1/session.proto")
types = grpc.protos("pmix/v1/types.proto")
GLOBAL = 3  # scope: all processes of the job


class Session:
    """The conversation with the server of this node. Requests are made one after the other here."""

    def __init__(self):
        address = os.environ["PMIX_GRPC_URI"].split(";", 1)[1]
        channel = grpc.insecure_channel(address)
        self.outgoing, self.id = queue.SimpleQueue(), 0
        self.incoming = services.SessionStub(channel).Connect(iter(self.outgoing.get, None))
        self.me = types.Proc(nspace=os.environ["PMIX_NAMESPACE"], rank=int(os.environ["PMIX_RANK"]))
        hello = pb.Hello(oldest_version=1, newest_version=1, implementation="hello.py", client=self.me, pid=os.getpid())
        self.welcome = self.ask(0, hello=hello).welcome

    def request(self, **body):
        self.id += 1
        return self.ask(self.id, **body)

    def ask(self, id, **body):
        self.outgoing.put(pb.ClientMessage(id=id, body=pb.ClientBody(**body)))
        large = b""
        for message in self.incoming:
            if message.id != id:
                continue  # a push, such as an event
            large += message.part.data
            if message.WhichOneof("content") == "part" and not message.part.last:
                continue
            answer = pb.ServerBody.FromString(large) if large else message.body
            if answer.WhichOneof("body") == "failure":
                raise RuntimeError(f"{answer.failure.message} (status {answer.failure.status})")
            return answer
        raise RuntimeError("the server closed the connection")


session = Session()
me, whole_job = session.me, types.Proc(nspace=session.me.nspace, rank=0xFFFFFFFE)  # rank WILDCARD
size = session.request(get=pb.Get(proc=whole_job, key="pmix.job.size")).get.value.uint32
endpoint = types.Value(string=f"{session.welcome.hostname}:{4000 + me.rank}")
session.request(commit=pb.Commit(entries=[pb.PutEntry(scope=GLOBAL, key="endpoint", value=endpoint)]))
collect = types.Info(key="pmix.collect", value=types.Value(bool=True))
modex = pb.Modex.FromString(session.request(fence=pb.Fence(directives=[collect])).fence.modex)
peers = {data.proc.rank: data.entries[0].value.string for data in modex.procs}
print(f"rank {me.rank} of {size}: peers {' '.join(f'{rank}={peers[rank]}' for rank in sorted(peers))}")
session.request(finalize=pb.Finalize())
session.outgoing.put(None)  # ends the stream
