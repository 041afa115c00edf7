// Much inlining: what random addresses are looked up in.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>
#ifndef SMALL // compiles three times faster without
#include <regex>
#endif

namespace shapes {
struct Shape {
	virtual ~Shape() = default;
	virtual double area() const = 0;
};
struct Square : Shape {
	double side;
	explicit Square(double s) : side(s) {}
	double area() const override { return side * side; }
};
struct Circle : Shape {
	double radius;
	explicit Circle(double r) : radius(r) {}
	double area() const override { return 3.14159 * radius * radius; }
};
} // namespace shapes

template <typename T, typename F> static std::vector<T> mapped(const std::vector<T> &in, F f) {
	std::vector<T> out;
	std::transform(in.begin(), in.end(), std::back_inserter(out), f);
	return out;
}

static inline int twice(int n) { return 2 * n; }

int count(const std::string &text) {
	std::unordered_map<std::string, int> words;
#ifdef SMALL
	for (size_t i = 0, end; i < text.size(); i = end + 1) {
		end = std::min(text.find(' ', i), text.size());
		words[text.substr(i, end - i)]++;
	}
#else
	std::regex word("[a-z]+");
	for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i)
		words[i->str()]++;
#endif
	std::map<int, std::vector<std::string>> by;
	for (auto &[w, n] : words)
		by[n].push_back(w);
	int sum = 0;
	for (auto &[n, list] : by) {
		std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) { return a.size() < b.size() || a < b; });
		sum += n * int(list.size());
	}
	return sum;
}

int main(int argc, char **argv) {
	std::vector<std::unique_ptr<shapes::Shape>> list;
	for (int i = 0; i < argc + 5; i++) {
		if (i % 2)
			list.push_back(std::make_unique<shapes::Square>(i));
		else
			list.push_back(std::make_unique<shapes::Circle>(i));
	}
	double total = std::accumulate(list.begin(), list.end(), 0.0, [](double a, const auto &s) { return a + s->area(); });
	std::vector<int> v(100);
	std::iota(v.begin(), v.end(), argc);
	std::function<int(int)> f = [&](int n) { return twice(n) + argc; };
	auto w = mapped(mapped(v, twice), f);
	std::stable_sort(w.begin(), w.end(), std::greater<>());
	std::printf("%f %d %d\n", total, w[0], count("the quick brown fox jumps over the lazy dog the end"));
	return w.size() > 100;
}
