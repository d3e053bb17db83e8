"""Listens where an sshd should, and is none: bad_ssh_server.py PORT noise|silence."""
import os
import socket
import sys

port, manner = int(sys.argv[1]), sys.argv[2]
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", port))
listener.listen()
print("ready", flush=True)
held = []
while True:
    client, _ = listener.accept()
    held.append(client)
    if manner == "noise":
        try:
            client.sendall(os.urandom(1 << 16))
        except OSError:
            pass  # the client had enough
