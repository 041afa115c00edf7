package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gperf/format"
	"gperf/internal/archive"
)

// often is how often files are looked for. Notifications of the kernel do not reach network file systems.
const often = time.Second

// unchangedFor is how long a recording in pipe mode, which does not say where it ends, is left unchanged before it is
// complete.
const unchangedFor = 10 * time.Second

// state is a version of a file.
type state struct {
	size    int64
	changed time.Time
}

// follower remembers files that need no look until they change.
type follower struct {
	flags *pushFlags
	seen  map[string]state // by path
}

// followFiles pushes recordings as they are completed, until ctx is done.
func (p *pushFlags) followFiles(ctx context.Context, operands []string) error {
	f := follower{p, map[string]state{}}
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		if err := f.look(ctx, operands); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if n, bytes := p.queue.Waiting(); n > 0 {
				p.say("%d batches (%.3f MB) stay in the spool; the next gperf push to this server sends them", n,
					float64(bytes)/1e6)
			}
			return nil
		case <-tick.C:
		}
	}
}

// look pushes the recordings that were completed since the last look.
func (f *follower) look(ctx context.Context, operands []string) error {
	there := map[string]bool{}
	for _, operand := range operands {
		paths, err := candidates(operand)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if ctx.Err() != nil {
				return nil
			}
			there[path] = true
			f.visit(ctx, path)
		}
	}
	for path := range f.seen {
		if !there[path] {
			delete(f.seen, path)
		}
	}
	return nil
}

// candidates returns the files that an operand of --follow names: those in a directory, those that match a pattern, or
// itself. They are sorted by name.
func candidates(operand string) ([]string, error) {
	st, err := os.Stat(operand)
	if err == nil && !(st.IsDir() && !isFile(filepath.Join(operand, format.DirData))) {
		return []string{operand}, nil
	}
	pattern := operand
	if err == nil {
		pattern = filepath.Join(escape(operand), "*")
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("--follow %s: %w", operand, err)
	}
	return paths, nil
}

// escape returns a pattern that matches only path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// visit pushes a recording if it is complete and changed since the last visit.
func (f *follower) visit(ctx context.Context, path string) {
	file := path
	if data := filepath.Join(path, format.DirData); isFile(data) {
		file = data // the recording is a directory
	}
	st, err := os.Stat(file)
	if err != nil || !st.Mode().IsRegular() || strings.HasPrefix(filepath.Base(path), ".") {
		return
	}
	now := state{st.Size(), st.ModTime()}
	if f.seen[path] == now {
		return
	}
	switch complete, pipe, err := examine(path); {
	case err != nil, !complete && !pipe:
		f.seen[path] = now // another file, or one that changes when it is completed
	case !complete && time.Since(now.changed) < unchangedFor:
	default:
		warnings := io.Discard
		if f.flags.input.verbose {
			warnings = f.flags.stderr
		}
		err := f.flags.add(ctx, path, warnings)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.flags.say("%v", err)
			f.flags.failed = true
		}
		f.seen[path] = now
	}
}

// examine reports whether a recording is complete, and whether it is in pipe mode, which does not say so. The recorder
// writes the size of the data at the end; archives appear when they are complete. The error means that the file is no
// recording.
func examine(path string) (complete, pipe bool, err error) {
	fd, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer fd.Close()
	r, err := archive.OpenRecording(fd, path)
	if err != nil {
		return false, false, err
	}
	defer r.Close()
	return r.File.Complete && !r.File.Pipe, r.File.Pipe, nil
}
