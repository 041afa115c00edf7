// C++ exceptions through frames without frame pointers.
#include <stdexcept>
#include <string>

#define NOINLINE __attribute__((noinline, noclone))

static volatile long sink;

struct Guard {
	~Guard() { sink = sink + 1; }
};

NOINLINE static long thrower(long n) {
	if (n == 0) throw std::runtime_error("deep");
	Guard g;
	return thrower(n - 1) + sink;
}

NOINLINE static long catcher(long n) {
	try {
		return thrower(n);
	} catch (const std::exception &e) {
		return std::string(e.what()).size();
	}
}

NOINLINE static void rethrower() {
	try {
		thrower(1);
	} catch (...) {
		throw;
	}
}

extern "C" NOINLINE void stepBegin() { __asm__ volatile("" ::: "memory"); }
extern "C" NOINLINE void stepEnd() { __asm__ volatile("" ::: "memory"); }

int main() {
	stepBegin();
	catcher(2);
	try {
		rethrower();
	} catch (...) {
		sink = 2;
	}
	stepEnd();
}
