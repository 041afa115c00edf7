package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
)

// Positions and size of the raw data of a call's span, after SpanStart: struct call of span.bpf.c.
const (
	CallIP        = 24 // address of a program's function
	CallArgs      = 32
	CallRetval    = 80
	CallGoroutine = 88
	CallSize      = 96
)

// NumCallArgs is the number of arguments in the raw data of a call's span.
const NumCallArgs = 6

// Calls are spans of functions: all of the kernel, or all of one file.
type Calls struct {
	Span
	Path      string // the file; "": the kernel
	Go        bool   // a Go program
	GoID      uint64 // offset of a goroutine's number in its struct g, in bytes; 0: unknown
	Functions []Function
}

// Function is a function whose calls are spans.
type Function struct {
	ID      uint16   // event of the function
	Address uint64   // of a kernel function
	Kprobe           // place of a kernel function
	Off     uint64   // in the file
	Returns []uint64 // return instructions in the file; nil: a return probe
}

// Kprobe is the place of a kprobe at the entry of a function of the kernel.
type Kprobe struct {
	Symbol string // the function's, which may be ambiguous
	// FromText is the offset from _text, in bytes, which is unambiguous; 0: unknown, as of functions of modules.
	FromText uint64
}

// place returns the place in the words of perf_event_open.
func (k *Kprobe) place(cookie uint64) (symbol string, o *link.KprobeOptions) {
	o = &link.KprobeOptions{Cookie: cookie}
	if k.FromText == 0 {
		return k.Symbol, o
	}
	o.Offset = k.FromText
	return "_text", o
}

// openCalls is the map of the open calls.
const openCalls = "calls"

// maxOwnCalls limits the functions of a kernel without cookies, where separate programs are loaded for each
// function.
const maxOwnCalls = 100

// AttachCalls makes samples at the ends of calls.
func (e *Sampler) AttachCalls(c *Calls) error {
	if c.Path != "" {
		return c.attachUser(e)
	}
	if features.HaveBPFLinkKprobeSession() == nil {
		return c.attachSession(e)
	}
	return c.attachKprobes(e)
}

// load loads programs for all functions of c, or, if own is not 0, for the function of this event. attach
// is how they will be attached.
func (c *Calls) load(e *Sampler, own uint16, attach ebpf.AttachType, noFrames bool, names ...string) (
	[]*ebpf.Program, error) {
	vars := map[string]any{"own_function": uint32(own), "no_frames": flag(noFrames), "in_kernel": flag(c.Path == ""),
		"in_go": flag(c.Go), "go_number": uint32(c.GoID), "at_ret": flag(c.Functions[0].Returns != nil)}
	if c.Path != "" {
		vars["cpus"] = e.o.CPUs
	}
	spec, err := loadSpan()
	if err != nil {
		return nil, err
	}
	byEntry := c.Path == "" && attach == ebpf.AttachNone && !haveCookies()
	vars["by_entry"] = flag(byEntry)
	if byEntry {
		entries := spec.Maps["entries"]
		entries.MaxEntries = uint32(len(c.Functions))
		for i := range c.Functions {
			f := &c.Functions[i]
			entries.Contents = append(entries.Contents, ebpf.MapKV{Key: f.Address, Value: uint64(f.ID)})
		}
	}
	return e.loadSpansFrom(spec, openCalls, &c.Span, vars, attach, names...)
}

// haveCookies reports whether programs of kprobes and uprobes can read cookies: from Linux 5.15 on.
func haveCookies() bool { return features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetAttachCookie) == nil }

// attachSession runs one program at the entry and the return of all functions of the kernel.
func (c *Calls) attachSession(e *Sampler) error {
	progs, err := c.load(e, 0, ebpf.AttachTraceKprobeSession, true, "call_both", "call_task_exits")
	if err != nil {
		return err
	}
	o := c.multi()
	o.Session = true
	if err := e.attached(link.KprobeMulti(progs[0], o)); err != nil {
		return fmt.Errorf("attaching a BPF program to functions: %w", err)
	}
	return attachRaw(e, progs[1:], "sched_process_free")
}

// multi returns the addresses of kernel functions, with the events as cookies.
func (c *Calls) multi() (o link.KprobeMultiOptions) {
	for i := range c.Functions {
		o.Addresses = append(o.Addresses, uintptr(c.Functions[i].Address))
		o.Cookies = append(o.Cookies, uint64(c.Functions[i].ID))
	}
	return o
}

// attachKprobes attaches two programs to the functions of the kernel: at once if the kernel can do that.
func (c *Calls) attachKprobes(e *Sampler) error {
	if HaveKprobeMulti() == nil {
		progs, err := c.load(e, 0, ebpf.AttachTraceKprobeMulti, false, "call_ends", "call_begins",
			"call_task_exits")
		if err == nil {
			err = e.attached(link.KretprobeMulti(progs[0], c.multi()))
		}
		if err == nil {
			err = e.attached(link.KprobeMulti(progs[1], c.multi()))
		}
		if err != nil {
			return fmt.Errorf("attaching BPF programs to functions: %w", err)
		}
		return attachRaw(e, progs[2:], "sched_process_free")
	}
	return c.attachEach(e, "sched_process_free", func(f *Function, ends, begins *ebpf.Program, cookie uint64) error {
		symbol, o := f.place(cookie)
		if err := e.attached(link.Kretprobe(symbol, ends, o)); err != nil {
			return fmt.Errorf("attaching a BPF program to the return of %s: %w", f.Symbol, err)
		}
		if err := e.attached(link.Kprobe(symbol, begins, o)); err != nil {
			return fmt.Errorf("attaching a BPF program to %s: %w", f.Symbol, err)
		}
		return nil
	})
}

// attachUser attaches programs to functions of a file: at once if the kernel can do that.
func (c *Calls) attachUser(e *Sampler) error {
	file, err := link.OpenExecutable(c.Path)
	if err != nil {
		return err
	}
	if features.HaveBPFLinkUprobeMulti() == nil {
		return c.attachUprobes(e, file)
	}
	return c.attachEach(e, "sched_process_exit", func(f *Function, ends, begins *ebpf.Program, cookie uint64) error {
		var err error
		if f.Returns == nil {
			err = e.attached(file.Uretprobe("", ends, &link.UprobeOptions{Address: f.Off, Cookie: cookie}))
		}
		for _, off := range append(f.Returns[:len(f.Returns):len(f.Returns)], f.Off) {
			if prog := begins; err == nil {
				if off != f.Off {
					prog = ends
				}
				err = e.attached(file.Uprobe("", prog, &link.UprobeOptions{Address: off, Cookie: cookie}))
			}
		}
		if err != nil {
			return fmt.Errorf("attaching a BPF program to %s: %w", c.Path, err)
		}
		return nil
	})
}

// attachUprobes attaches two programs to all functions of a file.
func (c *Calls) attachUprobes(e *Sampler, file *link.Executable) error {
	progs, err := c.load(e, 0, ebpf.AttachTraceUprobeMulti, false, "call_ends", "call_begins", "call_task_exits",
		"call_task_execs")
	if err != nil {
		return err
	}
	var entries, returns link.UprobeMultiOptions
	ends := file.UretprobeMulti
	for i := range c.Functions {
		f := &c.Functions[i]
		entries.Addresses, entries.Cookies = append(entries.Addresses, f.Off), append(entries.Cookies, uint64(f.ID))
		for _, off := range f.Returns {
			returns.Addresses, returns.Cookies = append(returns.Addresses, off), append(returns.Cookies, uint64(f.ID))
			ends = file.UprobeMulti
		}
	}
	if len(returns.Addresses) == 0 {
		returns = entries
	}
	if err = e.attached(ends(nil, progs[0], &returns)); err == nil {
		err = e.attached(file.UprobeMulti(nil, progs[1], &entries))
	}
	if err != nil {
		return fmt.Errorf("attaching BPF programs to %s: %w", c.Path, err)
	}
	return attachRaw(e, progs[2:], "sched_process_exit", "sched_process_exec")
}

// attachEach calls attach for each function. exit is the tracepoint at which a thread's calls end. The cookie is 0
// if the kernel does not support cookies: then separate programs are loaded for each function of a file.
func (c *Calls) attachEach(e *Sampler, exit string,
	attach func(f *Function, ends, begins *ebpf.Program, cookie uint64) error) error {
	all := []string{"call_ends", "call_begins", "call_task_exits"}
	if c.Path != "" {
		all = append(all, "call_task_execs")
	}
	cookies := haveCookies()
	shared := cookies || c.Path == ""
	if n := len(c.Functions); !shared && n > maxOwnCalls {
		return fmt.Errorf("%d functions of a file are too many before Linux 5.15, which can have %d", n, maxOwnCalls)
	}
	var progs []*ebpf.Program
	for i := range c.Functions {
		f := &c.Functions[i]
		own, cookie := f.ID, uint64(0)
		if shared {
			own = 0
		}
		if cookies {
			cookie = uint64(f.ID)
		}
		if i == 0 || !shared {
			names := all
			if i > 0 {
				names = all[:2]
			}
			l, err := c.load(e, own, ebpf.AttachNone, false, names...)
			if err != nil {
				return err
			}
			if progs = l; i == 0 {
				if err := attachRaw(e, l[2:], exit, "sched_process_exec"); err != nil {
					return err
				}
			}
		}
		if err := attach(f, progs[0], progs[1], cookie); err != nil {
			return err
		}
	}
	return nil
}
