# A receiver that does not read what arrives, more than its socket holds.
import socket, time

receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    sender.sendto(b"x" * 100, receiver.getsockname())
    time.sleep(0.002)
