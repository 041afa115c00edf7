// Functions of C++ to probe: overloads, methods, templates.
#include <cstdio>

namespace ns {
__attribute__((noinline)) int f(int a) { return printf("%d\n", a); }
__attribute__((noinline)) int f(double a) { return printf("%f\n", a); }
struct Class {
	int x;
	__attribute__((noinline)) int method(int a) const { return printf("%d\n", a + x); }
};
template <class T> __attribute__((noinline)) int t(T a) { return printf("%zu\n", sizeof(a)); }
}

int main()
{
	ns::Class c{3};
	return ns::f(1) + ns::f(2.5) + c.method(3) + ns::t<int>(4) + ns::t<long>(4) > 99;
}
