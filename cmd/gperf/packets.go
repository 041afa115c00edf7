package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/script/packets"
)

// hopFlags print the way of each packet.
type hopFlags struct {
	on   bool
	sort string
}

func (o *hopFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.on, "packets", false, "print the hops of each packet, and how it ended")
	s.StringVar(&o.sort, "sort", "time", "with --packets: sort by `key` time or latency")
}

// check checks the combination of flags.
func (o *hopFlags) check(s *pflag.FlagSet) error {
	switch {
	case o.on && s.Changed("tree"):
		return cli.WrongUse("--packets and --tree exclude each other")
	case !o.on && s.Changed("sort"):
		return cli.WrongUse("--sort is for --packets")
	case !slices.Contains([]string{"time", "latency"}, o.sort):
		return cli.WrongUse("--sort %s: use time or latency", o.sort)
	}
	return nil
}

// print prints the packets of a recording. It prints the packets of a pipe while they arrive.
func (o *hopFlags) print(from *inputFlags, nanosecs bool, stdout, stderr io.Writer) error {
	from.keepExited = true
	in, stop, err := from.openLive(stderr)
	if err != nil {
		return err
	}
	defer stop()
	defer in.Close()
	skipped, err := packets.Log(stdout, in.session, packets.Options{Nanosecs: nanosecs, ByLatency: o.sort == "latency"})
	incomplete := in.warn(stderr, skipped)
	return cmp.Or(err, incomplete)
}

// pcapng writes the packets of a recording.
func (o *formatFlags) pcapng(in *openInput, stdout, stderr io.Writer) error {
	if !packets.HasBytes(in.recording.File) {
		return packets.ErrNoBytes // before a file is replaced
	}
	var incomplete error
	err := o.write(stdout, func(w io.Writer) error {
		skipped, err := packets.Pcapng(w, in.session)
		incomplete = in.warn(stderr, skipped)
		return err
	})
	return cmp.Or(err, incomplete)
}

// lastWords is the time that the recorder at the other end of a pipe gets for the last samples after an
// interrupt, which both get.
const lastWords = time.Second

// openLive opens the only recording. If it is a pipe, the recording ends soon after an interrupt, so
// that its contents can be summarized. The caller calls stop at the end.
func (in *inputFlags) openLive(stderr io.Writer) (r *openInput, stop func(), err error) {
	paths, err := in.inputs()
	if err != nil {
		return nil, func() {}, err
	}
	st, err := os.Stdin.Stat()
	if len(paths) != 1 || paths[0] != "" && paths[0] != "-" || err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		r, err = in.open("this output", stderr)
		return r, func() {}, err
	}
	input.WhileRecording.Tune()
	ctx, _, stop := interrupts()
	reading, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })
	r = &openInput{verbose: in.verbose}
	if r.recording, err = input.LivePipe(reading, os.Stdin).Open("stdin"); err == nil {
		err = in.prepare(r, stderr)
	}
	if err != nil {
		r.Close()
		stop()
	}
	return r, stop, err
}
