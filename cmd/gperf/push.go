package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/spool"
	"gperf/internal/text"
	"gperf/report/export"
	"gperf/report/push"
)

// pushFlags holds the flags of gperf push.
type pushFlags struct {
	input     inputFlags
	follow    bool
	header    []string
	labels    []string
	by        string
	spoolSize string
	timeout   time.Duration
	rows      string
	schema    string
	opts      push.Options

	queue  *push.Queue
	stderr io.Writer
	known  int // recordings that were pushed before
	failed bool
}

func pushCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupFiles, "push [FLAGS] [FILE…] URL", "send recordings to a server")
	p := &pushFlags{input: inputFlags{keepExited: true}}
	p.addTo(c)
	c.RunE = p.run
	c.ValidArgsFunction = completeOperand
	return c
}

func (p *pushFlags) addTo(c *cobra.Command) {
	cli.AddFlags(c, "Push", func(f *pflag.FlagSet) {
		f.BoolVar(&p.follow, "follow", false, "push files as they are completed, until Ctrl-C")
		f.StringVar(&p.opts.Service, "service", "", "the `name` of what was recorded (default gperf)")
		f.StringArrayVar(&p.labels, "label", nil, "add an attribute, `KEY=VALUE`, to all samples")
		f.BoolVar(&p.opts.Metrics, "metrics", false, "push counts by reason, kind and so on, or --by")
		f.StringVar(&p.by, "by", "", "add these `keys` and fields to samples, as labels")
		f.StringArrayVarP(&p.header, "header", "H", nil, "send this header, `NAME:VALUE`; @FILE has lines of them")
		f.IntVar(&p.opts.MaxStack, "max-stack", maxStack, "push at most `n` frames per callchain")
		f.BoolVar(&p.opts.NoInline, "no-inline", false, "do not push inline frames")
		f.StringVar(&p.rows, "rows", rowNames[0], "send rows of this `kind`, or samples")
		f.StringVar(&p.schema, "schema", "", "print the tables of this `database`: clickhouse")
		f.BoolVar(&p.opts.Again, "again", false, "push recordings again that were pushed before")
		f.StringVar(&p.opts.Dir, "spool", "", "keep what is to be sent in this `directory`")
		f.StringVar(&p.spoolSize, "spool-size", "1G", "limit the spool to this `size`")
		f.DurationVar(&p.timeout, "timeout", time.Minute, "stop after this `time` of failures")
		f.StringVar(&p.input.filters.expression, "filter", "", "push only samples that match an `expr`: 'dport == 53'")
	})
	cli.AddFlags(c, "Symbols", p.input.addSymbols)
	cli.AddFlags(c, cli.General, func(f *pflag.FlagSet) {
		p.input.files.force = addForce(f)
		f.BoolVarP(&p.input.verbose, "verbose", "v", false, "print the protocol, each recording, and its warnings")
	})
}

// completeOperand completes the beginnings of URLs, and names of files.
func completeOperand(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var l []string
	for _, scheme := range push.Schemes() {
		if url := scheme + "://"; typed != "" && strings.HasPrefix(url, typed) {
			l = append(l, url)
		}
	}
	return l, cobra.ShellCompDirectiveNoSpace
}

func (p *pushFlags) run(c *cobra.Command, args []string) error {
	p.stderr = c.ErrOrStderr()
	if p.schema != "" {
		return p.printSchema(c.OutOrStdout(), args)
	}
	if len(args) == 0 || !push.IsURL(args[len(args)-1]) {
		return cli.WrongUse("the last argument is the URL of the server, such as otlp+grpc://localhost:4317")
	}
	files, url := args[:len(args)-1], args[len(args)-1]
	if p.follow && len(files) == 0 {
		return cli.WrongUse("--follow needs files, patterns or directories to follow")
	}
	if err := p.options(); err != nil {
		return err
	}
	var err error
	if p.queue, err = push.Open(url, p.opts); err != nil {
		return openError(err)
	}
	p.detail("%s to %s, spool %s", p.queue.Protocol(), p.queue.Server(), p.queue.Dir())
	ctx, _, stop := interrupts()
	defer stop()
	if p.follow {
		err = p.followFiles(ctx, files)
	} else {
		err = p.pushFiles(ctx, files)
	}
	err = errors.Join(err, p.queue.Close())
	p.summarize()
	if err == nil && p.failed {
		return errors.New("not everything could be read or pushed")
	}
	return err
}

func (p *pushFlags) printSchema(stdout io.Writer, args []string) error {
	if p.schema != "clickhouse" || len(args) > 0 {
		return cli.WrongUse("--schema %s: gperf push --schema clickhouse prints the tables of ClickHouse",
			strings.Join(append([]string{p.schema}, args...), " "))
	}
	_, err := io.WriteString(stdout, export.ClickHouseSchema)
	return err
}

// options completes the options of the queue.
func (p *pushFlags) options() (err error) {
	if p.opts.Bytes, err = text.ParseSize(p.spoolSize); err != nil || p.opts.Bytes <= 0 {
		return cli.WrongUse("--spool-size %s: use a number with K, M or G, such as 500M", p.spoolSize)
	}
	for _, text := range p.labels {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return cli.WrongUse("--label %s: use KEY=VALUE", text)
		}
		p.opts.Labels = append(p.opts.Labels, [2]string{key, value})
	}
	if p.by != "" {
		p.opts.By = strings.Split(p.by, ",")
	}
	if !slices.Contains(rowNames, p.rows) {
		return cli.WrongUse("--rows %s: use %s", p.rows, strings.Join(rowNames, " or "))
	}
	p.opts.Samples, p.opts.Filtered = p.rows == "samples", p.input.filters.expression != ""
	if p.opts.MaxStack < 0 {
		return cli.WrongUse("--max-stack %d is negative", p.opts.MaxStack)
	}
	if p.opts.Dir != "" { // the queue outlives changes of the working directory
		if p.opts.Dir, err = filepath.Abs(p.opts.Dir); err != nil {
			return err
		}
	}
	p.opts.Version, p.opts.Log = cli.BuildVersion(), func(line string) { p.say("%s", line) }
	p.opts.Header, err = headers(p.header)
	return err
}

// headers returns the headers that -H names.
func headers(list []string) (http.Header, error) {
	h := http.Header{}
	for _, text := range list {
		lines := text
		if file, ok := strings.CutPrefix(text, "@"); ok {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read headers: %w", err)
			}
			lines = string(b)
		}
		for line := range strings.Lines(lines) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" || strings.ContainsAny(name, " \t") {
				return nil, cli.WrongUse("--header: a line has no NAME: VALUE")
			}
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h, nil
}

// openError adds what to do to errors of opening the queue.
func openError(err error) error {
	if wrong := (*push.URLError)(nil); errors.As(err, &wrong) {
		return cli.WrongUse("%v", wrong)
	}
	if errors.Is(err, spool.ErrInUse) {
		return fmt.Errorf("%w: wait for the other gperf push to this server, or use another --spool", err)
	}
	return err
}

// pushFiles pushes files, and waits until they are sent.
func (p *pushFlags) pushFiles(ctx context.Context, files []string) error {
	for _, path := range files {
		err := p.add(ctx, path, p.stderr)
		if ctx.Err() != nil {
			return errors.New("interrupted; gperf push again pushes the rest")
		}
		if err != nil {
			p.say("%v", err)
			p.failed = true
		}
	}
	err := p.wait(ctx)
	n, _ := p.queue.Waiting()
	switch {
	case n == 0:
		return nil
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	return &unsentError{fmt.Errorf("%w; %d batches stay in the spool %s: gperf push sends them, also without files",
		err, n, p.queue.Dir())}
}

// unsentError means that batches are left in the spool.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// Hint says what to do about a server that refuses data.
func (e *unsentError) Hint() string {
	var refused *push.RefusedError
	if !errors.As(e.error, &refused) {
		return ""
	}
	switch kind, _, _ := strings.Cut(refused.Server, "+"); refused.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "-H 'Authorization: …' sends a header; -H @FILE reads it from a file.\n"
	case http.StatusNotFound:
		switch kind {
		case "clickhouse":
			return "gperf push --schema clickhouse | clickhouse-client -mn creates the tables.\n"
		case "otlp":
			return "A collector needs a pipeline of profiles and --feature-gates service.profilesSupport.\n"
		}
	}
	return ""
}

// wait waits until everything is sent, or sending fails for the time of --timeout.
func (p *pushFlags) wait(ctx context.Context) error {
	for {
		step, cancel := context.WithTimeout(ctx, time.Second)
		err := p.queue.Wait(step)
		again := errors.Is(step.Err(), context.DeadlineExceeded) && ctx.Err() == nil
		cancel()
		since, _ := p.queue.Failing()
		if err == nil || !again || !since.IsZero() && time.Since(since) > p.timeout {
			return err
		}
	}
}

// add pushes a recording into the spool. Warnings go to stderr. After Ctrl-C it does not wait until the recording
// is read; the spool then contains nothing of it.
func (p *pushFlags) add(ctx context.Context, path string, stderr io.Writer) error {
	type result struct {
		added, damaged bool
		err            error
	}
	results := make(chan result, 1)
	go func() {
		in, err := p.input.openPath(path, stderr)
		if err != nil {
			results <- result{err: err}
			return
		}
		var skipped format.Skipped
		added, err := p.queue.Add(ctx, push.Input{Recording: in.recording, Session: in.session,
			Warn: func(s format.Skipped) { skipped = s }})
		damaged := in.warn(stderr, skipped) != nil
		in.Close()
		results <- result{added, damaged, err}
	}()
	var r result
	select {
	case r = <-results:
	case <-ctx.Done():
		return ctx.Err()
	}
	if large := (*spool.TooLargeError)(nil); errors.As(r.err, &large) {
		return fmt.Errorf("%w: use a larger --spool-size", r.err)
	}
	switch p.failed = p.failed || r.damaged; {
	case r.err != nil:
		return r.err
	case !r.added:
		p.known++
		p.detail("%s was pushed before", path)
	default:
		p.detail("%s is in the spool", path)
	}
	return nil
}

// detail prints a line with -v.
func (p *pushFlags) detail(format string, args ...any) {
	if p.input.verbose {
		p.say(format, args...)
	}
}

// summarize prints the result of the push.
func (p *pushFlags) summarize() {
	s := p.queue.Stats()
	text := fmt.Sprintf("%d recordings, %d batches, %.3f MB to %s", s.Recordings, s.Batches, float64(s.Bytes)/1e6,
		p.queue.Server())
	if p.known > 0 {
		text += fmt.Sprintf("; %d recordings were pushed before (--again pushes them again)", p.known)
	}
	if s.Rejected > 0 {
		text += fmt.Sprintf("; %d batches rejected", s.Rejected)
		p.failed = true
	}
	fmt.Fprintf(p.stderr, "[ gperf push: %s ]\n", text)
}

func (p *pushFlags) say(format string, args ...any) {
	fmt.Fprintf(p.stderr, "gperf push: %s\n", fmt.Sprintf(format, args...))
}
