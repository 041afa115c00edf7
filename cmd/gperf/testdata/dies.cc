// Each dies_… ends with a call that throws. never_… is the function after it.
#include <stdexcept>
#include <string>
#include <vector>

#define separate __attribute__((noinline, noclone))
#define DEATHS(name, call) \
	separate void dies_at_end_##name(int n) { count = n; call; } \
	separate void never_at_end_##name(int n) { count = n + 1; call; } \
	separate void dies_if_##name(int n) { if (n >= 0) call; count = count + 1; } \
	separate void never_if_##name(int n) { if (n >= 0) call; count = count + 2; }

volatile int count;
static std::vector<int> numbers(3);
static std::string text("abc");

DEATHS(throw, throw n)
DEATHS(error, throw std::runtime_error("error"))
DEATHS(vector, count = numbers.at(n + 3))
DEATHS(string, count = text.at(n + 3))

static void (*deaths[])(int) = {dies_at_end_throw, dies_if_throw, dies_at_end_error, dies_if_error, dies_at_end_vector,
	dies_if_vector, dies_at_end_string, dies_if_string};

int main()
{
	for (auto death : deaths)
		try {
			death(1);
		} catch (...) {
			count = count + 1;
		}
}
