# causes.py N: N requests, from getppid to getuid, each with one cause, whose name it prints.
import mmap, os, socket, subprocess, sys, threading, time

lock = threading.Lock()
held = threading.Event()  # lock is, or was, by flush
ask, answer = socket.socketpair()


def depend():
    while answer.recv(1):
        time.sleep(0.02)
        answer.sendall(b"k")


def flush():
    with lock:
        held.set()
        time.sleep(0.02)


def cause_cpu():
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass


def cause_neighbours():
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass


def neighbours():
    """neighbours starts four programs that compute on the CPU of this one."""
    all = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all)})
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
    time.sleep(0.02)
    return all, hogs


def cause_sleep():
    time.sleep(0.02)


def cause_lock():
    with lock:
        pass


def cause_dependency():
    ask.sendall(b"s")
    ask.recv(1)


def cause_fault():
    m = mmap.mmap(-1, 16 << 20)
    for i in range(0, 16 << 20, 4096):
        m[i] = 1
    m.close()


threading.Thread(target=depend, daemon=True).start()
time.sleep(1)  # for a recorder to learn of this process
causes = [cause_cpu, cause_sleep, cause_lock, cause_dependency, cause_fault, cause_neighbours]
for i in range(int(sys.argv[1])):
    cause = causes[i % len(causes)]
    print(cause.__name__)
    if cause == cause_lock:
        held.clear()
        holder = threading.Thread(target=flush)
        holder.start()
        held.wait()
    if cause == cause_neighbours:
        cpus, hogs = neighbours()
    os.getppid()
    cause()
    os.getuid()
    if cause == cause_lock:
        holder.join()
    if cause == cause_neighbours:
        for hog in hogs:
            hog.kill()
            hog.wait()
        os.sched_setaffinity(0, cpus)
