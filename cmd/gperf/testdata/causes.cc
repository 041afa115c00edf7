// causes N DIR: N requests, from getppid to getuid, each with one cause, whose name it prints. Files are in DIR.
#include <arpa/inet.h>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/filter.h>
#include <mutex>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

std::mutex cache_lock;
std::atomic<bool> held;   // cache_lock is, or was, by flush_cache
std::atomic<bool> wanted; // by cause_lock
int ask, answer, disk; // the connection to the dependency, and a file
volatile long sink;

void compute(double ms)
{
	timespec t;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_sec * 1e3 + t.tv_nsec / 1e6 < ms);
}

double cpu_ms()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

void pause_ms(long ms)
{
	timespec t = {0, ms * 1000000};
	nanosleep(&t, nullptr);
}

// depend answers each question after 20 ms.
void depend()
{
	char c;
	while (read(answer, &c, 1) == 1) {
		pause_ms(20);
		if (write(answer, &c, 1) != 1)
			return;
	}
}

} // namespace

__attribute__((noinline)) void flush_cache()
{
	{
		std::lock_guard<std::mutex> l(cache_lock);
		held = true;
		while (!wanted) // however long it takes on a busy machine
			pause_ms(1);
		pause_ms(20);
	}
	sink++; // the function is on the stack while it unlocks
}

__attribute__((noinline)) void cause_cpu()
{
	compute(cpu_ms() + 20);
	sink++;
}

__attribute__((noinline)) void cause_neighbours()
{
	compute(cpu_ms() + 10);
	sink++;
}

__attribute__((noinline)) void cause_sleep()
{
	pause_ms(20);
	sink++;
}

__attribute__((noinline)) void cause_lock()
{
	wanted = true;
	std::lock_guard<std::mutex> l(cache_lock);
	sink++;
}

__attribute__((noinline)) void cause_dependency()
{
	char c = 's';
	if (write(ask, &c, 1) != 1 || read(ask, &c, 1) != 1)
		abort();
	sink++;
}

// cause_retransmit asks while the other end's filter drops all packets, for 50 ms: TCP sends again after 200 ms.
__attribute__((noinline)) void cause_retransmit()
{
	char c = 's';
	if (write(ask, &c, 1) != 1 || read(ask, &c, 1) != 1)
		abort();
	sink++;
}

__attribute__((noinline)) void cause_fault()
{
	const size_t size = 16 << 20;
	char *m = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	madvise(m, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		m[i] = 1;
	munmap(m, size);
	sink++;
}

// cause_disk writes until 10 ms have passed.
__attribute__((noinline)) void cause_disk()
{
	static char block[64 << 10];
	timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		if (pwrite(disk, block, sizeof(block), 0) != sizeof(block) || fsync(disk))
			abort();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1e3 + (now.tv_nsec - begin.tv_nsec) / 1e6 < 10);
	sink++;
}

namespace {

// connect_tcp connects ask with answer over the loopback interface.
void connect_tcp()
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	sockaddr_in a = {};
	socklen_t n = sizeof(a);
	a.sin_family = AF_INET;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ask = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, reinterpret_cast<sockaddr *>(&a), n) || listen(listener, 1) ||
	    getsockname(listener, reinterpret_cast<sockaddr *>(&a), &n) || connect(ask, reinterpret_cast<sockaddr *>(&a), n))
		abort();
	answer = accept(listener, nullptr, nullptr);
	setsockopt(ask, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(listener);
}

// drop makes answer drop all packets for 50 ms, in the background.
std::thread drop()
{
	sock_filter none = {BPF_RET | BPF_K, 0, 0, 0};
	sock_fprog program = {1, &none};
	setsockopt(answer, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
	return std::thread([] {
		pause_ms(50);
		int zero = 0;
		setsockopt(answer, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof(zero));
	});
}

// neighbours starts four programs that compute on the CPU of this thread.
std::vector<pid_t> neighbours()
{
	std::vector<pid_t> hogs;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();
		if (pid == 0)
			for (;;)
				sink = sink + 1;
		hogs.push_back(pid);
	}
	pause_ms(20);
	return hogs;
}

} // namespace

int main(int argc, char **argv)
{
	struct {
		void (*run)();
		const char *name;
	} causes[] = {{cause_cpu, "cause_cpu"}, {cause_sleep, "cause_sleep"}, {cause_lock, "cause_lock"},
		{cause_dependency, "cause_dependency"}, {cause_fault, "cause_fault"}, {cause_disk, "cause_disk"},
		{cause_neighbours, "cause_neighbours"}, {cause_retransmit, "cause_retransmit"}};
	disk = open((std::string(argv[2]) + "/disk").c_str(), O_CREAT | O_RDWR, 0600);
	connect_tcp();
	std::thread(depend).detach();
	sleep(1); // for a recorder to learn of this process
	cpu_set_t all;
	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < atoi(argv[1]); i++) {
		auto &cause = causes[i % 8];
		std::thread other;
		std::vector<pid_t> hogs;
		puts(cause.name);
		if (cause.run == cause_lock) {
			held = wanted = false;
			other = std::thread(flush_cache);
			while (!held)
				sched_yield();
		} else if (cause.run == cause_retransmit) {
			other = drop();
		} else if (cause.run == cause_neighbours) {
			hogs = neighbours();
		}
		getppid();
		cause.run();
		getuid();
		if (other.joinable())
			other.join();
		for (pid_t pid : hogs) {
			kill(pid, SIGKILL);
			waitpid(pid, nullptr, 0);
		}
		sched_setaffinity(0, sizeof(all), &all);
	}
	fflush(stdout);
	_exit(0);
}
