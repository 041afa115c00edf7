package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// librarySource is a library with a function that calls its successor in a list, as many times as left says.
// FUNCTIONS are further functions, each with separate rows in the unwind table.
const librarySource = `
typedef long enter_t(void **next, long left, long spin);

__attribute__((noipa)) long enter(void **next, long left, long spin) {
	volatile char room[40];
	room[left % sizeof(room)] = 1;
	for (long i = 0; i < spin; i++)
		__asm__ volatile("");
	return room[left % sizeof(room)] + (left > 0 ? ((enter_t *)*next)(next + 1, left - 1, spin) : 0);
}

#define F(n) __attribute__((noipa)) long f##n(long a, long b, long c) { return enter(0, a + n, b) * c + a; }
#define F4(n) F(n##0) F(n##1) F(n##2) F(n##3)
#define F16(n) F4(n##0) F4(n##1) F4(n##2) F4(n##3)
#define F64(n) F16(n##0) F16(n##1) F16(n##2) F16(n##3)
#define F256(n) F64(n##0) F64(n##1) F64(n##2) F64(n##3)
#define F1024(n) F256(n##0) F256(n##1) F256(n##2) F256(n##3)
FUNCTIONS
`

// librariesSource loads all libraries of a directory, and then calls through them for some seconds: each time
// through as many as the depth, in another order.
const librariesSource = `
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *entries[1 << 16];

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
	double end = now() + atof(argv[2]);
	long depth = atol(argv[3]), n = 0;
	DIR *dir = opendir(argv[1]);
	char path[4096];
	for (struct dirent *e; dir && n < sizeof(entries) / sizeof(*entries) && (e = readdir(dir));) {
		snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
		void *library = strstr(e->d_name, ".so") ? dlopen(path, RTLD_NOW) : 0;
		if (library && (entries[n] = dlsym(library, "enter")))
			n++;
	}
	if (n <= depth)
		return 1;
	while (now() < end) {
		for (long i = 0; i < n; i++) {
			long j = i + random() % (n - i);
			void *swap = entries[i];
			entries[i] = entries[j];
			entries[j] = swap;
		}
		for (long i = 0; i + depth < n; i += depth)
			((long (*)(void **, long, long))entries[i])(entries + i + 1, depth - 1, 2000);
	}
	return 0;
}
`

// libraries holds many libraries with different build IDs, and the program that uses them.
type libraries struct{ dir, program string }

// makeLibraries makes small libraries, and big ones whose unwind tables gperf caches.
func makeLibraries(dir string, small, big int) (*libraries, error) {
	l := &libraries{dir: filepath.Join(dir, "libraries"), program: filepath.Join(dir, "use-libraries")}
	if err := os.Mkdir(l.dir, 0o777); err != nil {
		return nil, err
	}
	if err := compile(librariesSource, l.program, "-O2"); err != nil {
		return nil, err
	}
	if err := l.add("small", "F16()", small); err != nil {
		return nil, err
	}
	return l, l.add("big", "F1024(1) F1024(2) F1024(3)", big)
}

// add compiles a library, and copies it n times with other build IDs.
func (l *libraries) add(kind, functions string, n int) error {
	b, at, err := compileWithID(strings.ReplaceAll(librarySource, "FUNCTIONS", functions),
		filepath.Join(filepath.Dir(l.dir), kind+".so"), "-O2", "-fomit-frame-pointer", "-fPIC", "-shared")
	if err != nil {
		return err
	}
	for i := range n {
		binary.LittleEndian.PutUint32(b[at+16:], uint32(i))
		if err := os.WriteFile(filepath.Join(l.dir, fmt.Sprintf("%s%d.so", kind, i)), b, 0o777); err != nil {
			return err
		}
	}
	return nil
}

// use returns the command that loads the libraries and calls through them.
func (l *libraries) use(seconds, depth int) []string {
	return []string{l.program, l.dir, fmt.Sprint(seconds), fmt.Sprint(depth)}
}

// idSize is the size of a build ID in bytes.
const idSize = 20

// compileWithID compiles C source, and returns the contents of the output with the place of the build ID in them.
func compileWithID(source, output string, flags ...string) (image []byte, at int, err error) {
	id := fmt.Appendf(nil, "%-*.*s", idSize, idSize, "gperf bench "+filepath.Base(output))
	if err := compile(source, output, append(flags, fmt.Sprintf("-Wl,--build-id=0x%x", id))...); err != nil {
		return nil, 0, err
	}
	image, err = os.ReadFile(output)
	if at = bytes.Index(image, id); err == nil && at < 0 {
		err = fmt.Errorf("%s has no build ID", output)
	}
	return image, at, err
}

// compile compiles C source.
func compile(source, output string, flags ...string) error {
	cmd := exec.Command("gcc", append(flags, "-x", "c", "-", "-o", output)...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// manyLibraries records a program that loads 2,000 libraries and calls through them at once, without any table cached
// before, and with a cache of many other files.
func (b churnPart) manyLibraries(by []grapher) error {
	const small, big, depth, cached = 1700, 300, 100, 20000
	dir := filepath.Join(b.dir, "churn")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	l, err := makeLibraries(dir, small, big)
	if err != nil {
		return err
	}
	full := filepath.Join(dir, "cache")
	if err := fillCache(full, cached); err != nil {
		return err
	}
	fmt.Printf("\n%d libraries, loaded at once, record %s, %s\n", small+big, strings.Join(wholeSystem, " "),
		loadAverage())
	w := newTable("recorder\tcache\tuser stacks\tcomplete\tafter 1 s\trecorder's CPU s\tmax RSS MB")
	name := []string{"bash", "-c", `printf @libraries >/proc/$$/comm; "$0" "$@"`}
	load := append(name, l.use(b.loadSeconds, depth)...)
	for i, g := range append([]grapher{by[0]}, by...) {
		cache, name := filepath.Join(dir, fmt.Sprint("cache", i)), "empty"
		if i == 1 {
			cache, name = full, fmt.Sprint(cached, " files")
		}
		r, err := b.recordWithCache(g, wholeSystem, load, cache)
		if err != nil {
			return err
		}
		counts, err := b.countByLoad(r)
		if err != nil {
			return err
		}
		os.Remove(r.file)
		c := counts["libraries"]
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%.2f\t%.1f\n", g, name, c.stacks, c.percent(),
			percent(c.lateComplete, c.late), r.cpu().Seconds(), float64(r.maxRSS)/(1<<20))
	}
	return w.Flush()
}

// fillCache makes files of other libraries in a cache of unwind tables.
func fillCache(cache string, n int) error {
	dir := filepath.Join(cache, "gperf", "unwind")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("%040x.table", i))
		if err := os.WriteFile(name, make([]byte, 4096), 0o666); err != nil {
			return err
		}
	}
	return nil
}
