"""A session with the server of this node, for programs that know the .proto files only. PYTHONPATH has to have pmix-proto/proto."""

import atexit
import collections
import os
import queue

import grpc

# compiled on the fly; `python3 -m grpc_tools.protoc` makes files of them for good
pb, services = grpc.protos_and_services("pmix/v1/session.proto")
types, queries = grpc.protos("pmix/v1/types.proto"), grpc.protos("pmix/v1/query.proto")
WILDCARD = 0xFFFFFFFE  # rank: all processes of the namespace


class Session:
    """Requests are made one after the other. What the server sends without being asked is kept until `pushes` is read."""

    def __init__(self, uri, name, **identity):
        """Attaches to the server at this address as `client=Proc(..)` or `tool=ToolIdentity()`; the kernel says which user this is."""
        self.channel = grpc.insecure_channel(uri.split(";", 1)[1])
        self.outgoing, self.kept, self.id = queue.SimpleQueue(), collections.deque(), 0
        self.incoming = services.SessionStub(self.channel).Connect(iter(self.outgoing.get, None))
        self.bodies = self._bodies()
        # if gRPC still has a call when the interpreter ends, it may wait for a thread that no longer exists
        atexit.register(self._hang_up)
        hello = pb.Hello(oldest_version=1, newest_version=1, implementation=name, pid=os.getpid(), **identity)
        self.welcome = self._ask(0, "welcome", hello=hello).welcome

    def request(self, **body):
        """The reply to a request, such as `request(get=pb.Get(..)).get`."""
        self.id += 1
        return self._ask(self.id, None, **body)

    def pushes(self):
        """Events and all else that is not a reply, until the server stops."""
        while True:
            body = self.kept.popleft() if self.kept else next(self.bodies, (0, None))[1]
            if body is None or body.HasField("stopping"):
                return
            yield body

    def close(self):
        """Leaves in good order. Without this the server takes the end of the program for its death."""
        self.request(finalize=pb.Finalize())
        self._hang_up()

    def _hang_up(self):
        self.outgoing.put(None)
        self.bodies.close()
        self.incoming = None
        self.channel.close()

    def _ask(self, id, form, **body):
        self.outgoing.put(pb.ClientMessage(id=id, body=pb.ClientBody(**body)))
        for of, body in self.bodies:
            kind = body.WhichOneof("body")
            if of != id:
                self.kept.append(body)
            elif kind == "failure":
                raise RuntimeError(f"{body.failure.message} (status {body.failure.status})")
            elif form in (None, kind):
                return body
        raise RuntimeError("the server closed the connection")

    def _bodies(self):
        """What the server sends, with the id of the request. A large body comes in parts, perhaps between those of another."""
        parts = collections.defaultdict(bytes)
        for message in self.incoming:
            if message.WhichOneof("content") == "body":
                yield message.id, message.body
                continue
            parts[message.id] += message.part.data
            if message.part.last:
                yield message.id, pb.ServerBody.FromString(parts.pop(message.id))
