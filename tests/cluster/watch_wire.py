"""What passes an interface: watch_wire.py INTERFACE FILE HEX

Says "watching", then counts TCP packets, and those with these bytes in them, until FILE exists:
"PACKETS packets, WITH with them". A minute at most.
"""

import os
import socket
import sys
import time

interface, stop, wanted = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
ALL_PROTOCOLS = 3
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
wire.bind((interface, 0))
wire.settimeout(0.1)
print("watching", flush=True)
packets = found = 0
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        packet = wire.recv(1 << 17)
    except socket.timeout:
        if os.path.exists(stop):
            break
        continue
    packets += 1
    found += wanted in packet
print(f"{packets} packets, {found} with them", flush=True)
