package record

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
)

func TestParsePages(t *testing.T) {
	page := os.Getpagesize()
	for s, want := range map[string]int{
		"1": 1, "3": 4, "128": 128, "0": 1, "1B": 1, "512K": 512 << 10 / page, "100K": 1 << 17 / page, "1M": 1 << 20 / page, "1G": 1 << 30 / page,
	} {
		n, rounded, err := ParsePages(s)
		if err != nil || n != want {
			t.Errorf("%s: %d pages, %v; want %d", s, n, err, want)
		}
		if (s == "3" || s == "100K") != rounded && s != "0" && s != "1B" {
			t.Errorf("%s: rounded is %v", s, rounded)
		}
	}
	for _, s := range []string{"", "K", "x", "-1", "1.5M", "1T", "16,16", "2147483647G"} {
		if n, _, err := ParsePages(s); err == nil {
			t.Errorf("%q: %d pages", s, n)
		}
	}
}

// TestThreadsWhileOpening: threads that start while the counters are opened get counters, or are reported.
func TestThreadsWhileOpening(t *testing.T) {
	ended := make(chan bool)
	defer close(ended)
	start := func(known []int) int {
		tid := make(chan int)
		for {
			go func() {
				runtime.LockOSThread() // an idle thread of Go, if there is one
				tid <- unix.Gettid()
				<-ended
			}()
			if n := <-tid; !slices.Contains(known, n) {
				return n
			}
		}
	}
	for _, test := range []struct {
		name     string
		rounds   int // of opening in which a thread starts
		count    bool
		reported bool
	}{
		{"one", 1, false, false},
		{"always", 100, false, true},
		{"counting", 1, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notices []error
			o := &plan{Options: Options{Target: Target{PIDs: []int{os.Getpid()}}, Count: test.count,
				Hooks: Hooks{Notice: func(what error) { notices = append(notices, what) }}}}
			r := &opened{opts: o, cpus: []int{-1}, set: &perfevent.Set{Events: make([]event.Event, 1),
				Attrs: []format.Attr{{Type: format.TypeSoftware, Config: format.SWTaskClock, Size: format.AttrSize,
					Flags: format.FlagDisabled | format.FlagExcludeKernel}}}}
			threads, err := o.Target.threads()
			if err != nil {
				t.Fatal(err)
			}
			var started []int
			r.set.Opening = func(int) error {
				if len(started) < test.rounds {
					known, _ := o.Target.threads()
					started = append(started, start(known))
				}
				return nil
			}
			threads, err = r.openCounters(threads)
			defer r.set.Close()
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			missed := slices.DeleteFunc(started, func(tid int) bool {
				return slices.Contains(threads, tid) && slices.ContainsFunc(r.set.Counters,
					func(c perfevent.Counter) bool { return c.TID == tid })
			})
			if (len(notices) > 0) != test.reported || (len(missed) > 0) != test.reported {
				t.Errorf("%d threads have no counter, notices %v", len(missed), notices)
			}
		})
	}
}

// TestUnrecordedCPU: a CPU that comes online and is not recorded is reported once, unless the user chose others.
func TestUnrecordedCPU(t *testing.T) {
	for _, test := range []struct {
		name  string
		opts  Options
		rings []*perfevent.Ring
		want  error
	}{
		{"all CPUs", Options{}, nil, ErrNewCPU},
		{"another CPU", Options{Target: Target{CPUs: []int{0}}}, nil, nil},
		{"overwritten ring", Options{Overwrite: true}, []*perfevent.Ring{{CPU: 3}}, errOldRing},
	} {
		t.Run(test.name, func(t *testing.T) {
			var notices []error
			test.opts.Notice = func(what error) { notices = append(notices, what) }
			r := &recorder{opened: opened{opts: &plan{Options: test.opts}, set: new(perfevent.Set), rings: test.rings}}
			for range 2 {
				r.cameOnline(3)
			}
			if test.want == nil && notices == nil {
				return
			}
			if len(notices) != 1 || !errors.Is(notices[0], test.want) {
				t.Errorf("notices %v, want one: %v", notices, test.want)
			}
		})
	}
}
