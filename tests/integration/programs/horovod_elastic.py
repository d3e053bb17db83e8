"""An elastic program of Horovod as far as the launcher sees one: what hvd.init, hvd.shutdown and
hvd.elastic.run say to the rendezvous and to each other, with pickles as Python makes them.

    horovod_elastic.py STOP [import SECONDS]

trains until there is a file STOP. Each step adds the average of all ranks' ones to a weight, so the
weight is the number of committed steps. A file STOP.HOST.LOCAL_RANK has that rank kill itself in
its next step, one STOP.exit.HOST.LOCAL_RANK exit with 3. import: it takes that long to come to
hvd.init.
"""

import base64
import enum
import fcntl
import hashlib
import hmac
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
import time
import types


# Horovod's modules, as far as its pickles name them.
def module(name):
    path = ""
    for part in name.split("."):
        path = f"{path}.{part}" if path else part
        sys.modules.setdefault(path, types.ModuleType(path))
    return sys.modules[name]


def lives_in(name):
    def place(cls):
        cls.__module__ = name
        setattr(module(name), cls.__name__, cls)
        return cls
    return place


NETWORK = "horovod.runner.common.util.network"
WORKER = "horovod.runner.elastic.worker"


@lives_in(NETWORK)
class PingRequest:
    pass


@lives_in(NETWORK)
class AckResponse:
    pass


@lives_in(WORKER)
class HostUpdateResult(enum.IntFlag):
    no_update = 0
    removed = 1
    added = 2
    mixed = 3


@lives_in(WORKER)
class HostsUpdatedRequest:
    def __init__(self, timestamp, res):
        self.timestamp = timestamp
        self.res = res


class HorovodInternalError(RuntimeError):
    pass


class HostsUpdatedInterrupt(RuntimeError):
    def __init__(self, skip_sync):
        super().__init__()
        self.skip_sync = skip_sync


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def interface_address(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as fd:
        packed = fcntl.ioctl(fd.fileno(), 0x8915, struct.pack("256s", name.encode()))
    return socket.inet_ntoa(packed[20:24])


def receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("connection closed by peer")
        data += more
    return data


def send_object(connection, value):
    data = pickle.dumps(value)
    connection.sendall(struct.pack("<i", len(data)) + data)


def receive_object(connection):
    (size,) = struct.unpack("<i", receive(connection, 4))
    return pickle.loads(receive(connection, size))


class Store:
    """Horovod's HTTP client: a connection for each request, no time-out, three tries."""

    def __init__(self, scope):
        self.scope = scope
        self.server = (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"],
                       int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]))

    def ask(self, method, key, value=b""):
        for _ in range(3):
            try:
                status, body = self.ask_once(method, key, value)
            except (OSError, ValueError):
                status, body = 0, b""
            if status in (200, 404):
                return body if status == 200 else None
            time.sleep(0.5)
        sys.stderr.write("terminate called: HTTP request failed.\n")
        os.abort()

    def ask_once(self, method, key, value):
        with socket.create_connection(self.server) as connection:
            connection.sendall(f"{method} /{self.scope}/{key} HTTP/1.1\r\nHost: {self.server[0]}\r\n"
                               f"Content-Length: {len(value)}\r\n\r\n".encode() + value)
            head = b""
            while b"\r\n\r\n" not in head:
                head += receive(connection, 1)
            lines = head.decode().split("\r\n")
            length = next(line for line in lines if line.startswith("Content-Length: "))
            return int(lines[0].split(" ")[1]), receive(connection, int(length[16:]))


class Mesh:
    def __init__(self, scope, rank, size):
        store = Store(scope)
        store.ask("PUT", f"rank_{rank}", socket.gethostname().encode())
        for other in range(rank):
            store.ask("GET", f"rank_{other}")
        address = interface_address(os.environ["HOROVOD_GLOO_IFACE"])
        self.peers = {}
        with socket.create_server((address, 0), backlog=size) as listener:
            own = f"{address}:{listener.getsockname()[1]}" if size > 1 else ""
            store.ask("PUT", str(rank), own.encode())
            limit = int(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"))
            for other in range(size):
                if other == rank:
                    continue
                end = time.monotonic() + limit
                while (place := store.ask("GET", str(other))) is None:
                    if time.monotonic() > end:
                        sys.stderr.write(f"  what():  [horovod/common/gloo/http_store.cc:57] Wait "
                                         f"timeout after {limit} seconds for key(s): {other}.\n")
                        os.abort()
                    time.sleep(0.01)
                if other < rank:
                    host, port = place.decode().split(":")
                    self.peers[other] = socket.create_connection((host, int(port)))
                    send_object(self.peers[other], (scope, rank))
            listener.settimeout(limit)
            while len(self.peers) < size - 1:
                connection, _ = listener.accept()
                connection.settimeout(None)
                said, other = receive_object(connection)
                assert said == scope and other > rank, (said, other)
                self.peers[other] = connection
        self.rank = rank
        for peer in self.peers.values():
            send_object(peer, "here")
        for peer in self.peers.values():
            assert receive_object(peer) == "here"
        store.ask("DELETE", str(rank))

    def close(self):
        for peer in self.peers.values():
            peer.close()

    def from_rank_0(self, value):
        if self.rank != 0:
            return receive_object(self.peers[0])
        for peer in self.peers.values():
            send_object(peer, value)
        return value

    def to_rank_0(self, value):
        if self.rank != 0:
            send_object(self.peers[0], value)
            return [value]
        return [value] + [receive_object(self.peers[rank]) for rank in sorted(self.peers)]


class Horovod:
    def __init__(self):
        self.host = os.environ["HOROVOD_HOSTNAME"]
        self.initialized_before = False
        self.meshes = []

    def init(self):
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
        numbers = [int(os.environ["HOROVOD_" + name]) for name in names]
        if self.initialized_before and os.environ.get("HOROVOD_ELASTIC") == "1":
            answer = Store("rank_and_size").ask("GET", f"{self.host}:{self.local_rank}")
            numbers = [int(number) for number in answer.decode().split(",")]
            if numbers[0] == -1:
                sys.stderr.write(f"{self.host}[{self.local_rank}] has been removed from elastic job\n")
                os.abort()
        self.initialized_before = True
        self.rank, self.size, self.local_rank, local_size, cross_rank, cross_size = numbers
        self.meshes = [Mesh("global", self.rank, self.size)]
        self.meshes.append(Mesh(f"local_{self.host}", self.local_rank, local_size))
        self.meshes.append(Mesh(f"cross_{self.local_rank}", cross_rank, cross_size))

    def shutdown(self):
        for mesh in self.meshes:
            mesh.close()
        self.meshes = []

    def broadcast(self, value):
        try:
            return self.meshes[0].from_rank_0(value)
        except (OSError, EOFError) as e:
            raise HorovodInternalError(str(e)) from e

    def average(self, value):
        try:
            values = self.meshes[0].to_rank_0(value)
            return self.meshes[0].from_rank_0(sum(values) / len(values))
        except (OSError, EOFError) as e:
            raise HorovodInternalError(str(e)) from e


hvd = Horovod()


class Notifications:
    """The worker notification service of hvd.elastic.run."""

    def __init__(self):
        self.key = os.urandom(32)
        self.updates = queue.Queue()
        self.listener = None

    def init(self):
        if self.listener is not None:
            return
        name = os.environ["HOROVOD_GLOO_IFACE"]
        address = interface_address(name)
        self.listener = socket.create_server((address, 0))
        port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        value = base64.b64encode(pickle.dumps(({name: [(address, port)]}, self.key), 5))
        Store("worker_addresses").ask("PUT", f"{hvd.host}:{hvd.local_rank}", value)

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                try:
                    digest = receive(connection, 32)
                    (size,) = struct.unpack("i", receive(connection, 4))
                    body = receive(connection, size)
                except OSError:
                    continue
                if not hmac.compare_digest(digest, hmac.new(self.key, body, hashlib.sha256).digest()):
                    say("a notice with a wrong digest")
                    continue
                request = pickle.loads(body)
                say(f"notice {request.timestamp} {HostUpdateResult(request.res).name}")
                self.updates.put((request.timestamp, request.res))
                reply = pickle.dumps(AckResponse(), 5)
                connection.sendall(hmac.new(self.key, reply, hashlib.sha256).digest() +
                                   struct.pack("i", len(reply)) + reply)


notifications = Notifications()


class State:
    def __init__(self):
        self.step, self.weight = 0, 0.0
        self.saved = (0, 0.0)
        self.last_update = 0

    def commit(self):
        self.saved = (self.step, self.weight)
        previous, all_updates = self.last_update, 0
        while not notifications.updates.empty():
            timestamp, update = notifications.updates.get()
            if timestamp > self.last_update:
                self.last_update = timestamp
                all_updates |= update
        previous, self.last_update, all_updates = hvd.broadcast(
            (previous, self.last_update, all_updates))
        if self.last_update > previous:
            raise HostsUpdatedInterrupt(all_updates == HostUpdateResult.removed)

    def restore(self):
        self.step, self.weight = self.saved

    def sync(self):
        self.step, self.weight = self.saved = hvd.broadcast((self.step, self.weight))


def run_elastic(train, state):
    notifications.init()
    skip_sync = False
    while True:
        try:
            if not skip_sync:
                state.sync()
            say(f"begins at step {state.step}: rank {hvd.rank} of {hvd.size} on {hvd.host}")
            return train(state)
        except HorovodInternalError:
            state.restore()
            skip_sync = False
        except HostsUpdatedInterrupt as e:
            skip_sync = e.skip_sync
        hvd.shutdown()
        hvd.init()
        notifications.updates = queue.Queue()  # as State.on_reset


def main():
    stop = sys.argv[1]
    words = sys.argv[2:]
    if "import" in words:
        time.sleep(float(words[words.index("import") + 1]))
    hvd.init()
    state = State()

    def train(state):
        while True:
            own = f"{hvd.host}.{hvd.local_rank}"
            if os.path.exists(f"{stop}.{own}"):
                os.unlink(f"{stop}.{own}")
                os.kill(os.getpid(), signal.SIGKILL)
            if os.path.exists(f"{stop}.exit.{own}"):
                os.unlink(f"{stop}.exit.{own}")
                sys.exit(3)
            if hvd.broadcast(os.path.exists(stop)):
                return
            state.weight += hvd.average(1.0)
            state.step += 1
            if hvd.rank == 0:
                say(f"step {state.step} of {hvd.size}: {state.weight:g}")
            time.sleep(0.03)
            state.commit()

    run_elastic(train, state)
    say(f"done at step {state.step}: rank {hvd.rank} of {hvd.size}, weight {state.weight:g}")
    hvd.shutdown()


main()
