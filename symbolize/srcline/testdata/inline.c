// Inlined calls without a library: for any machine.
static inline int leaf(int n) { return n * 7 + 3; }
static inline int middle(int *p, int n) {
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += leaf(p[i]) ^ leaf(i);
	return sum;
}
int volatile sink;
__attribute__((noinline)) int cold(int n) { return sink += n; }
int outer(int *p, int n) {
	if (n > 1000)
		return cold(n);
	for (int i = 0; i < n; i++) {
		int t = middle(p, i);
		if (t & 1)
			sink = middle(p + 1, t) + leaf(t);
		else
			sink = leaf(n) / (t + 1);
	}
	return middle(p, n);
}
