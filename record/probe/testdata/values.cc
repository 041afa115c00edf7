// Strings and floating-point numbers of C++, for probes to read.
#include <cstdio>
#include <string>
#include <string_view>

struct shape {
	double area;
	float side;
	double at[3];
	const char *name;
	std::string label;
};

__attribute__((noinline)) int values(const std::string &s, std::string_view v, const shape *sh)
{
	return printf("%s %zu %f\n", s.c_str(), v.size(), sh->area);
}

__attribute__((noinline)) std::string returned(int n) { return std::string(n, 'x'); }

int main()
{
	shape sh{3.25, -0.5f, {1e100, 0.1, -2}, "square", "label"};

	values("a string that is too long to be kept inside", std::string_view("viewed and more").substr(0, 6), &sh);
	values("short", "", &sh);
	return returned(3).size() + returned(40).size() != 43;
}
