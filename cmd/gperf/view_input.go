package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/archive"
)

func viewCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupAnalyse, "view [FLAGS] [FILE…]\nview [FLAGS] -- record …",
		"show recordings in the browser")
	in := &inputFlags{keepExited: true}
	addViewFlags(c, in, maxStack, func() (context.Context, func()) {
		ctx, _, stop := interrupts()
		return ctx, stop
	})
	in.addTo(c)
	return c
}

func (in *inputFlags) Paths() []string { return in.paths }

func (in *inputFlags) Open(path string, stderr io.Writer) (*viewInput, error) {
	r, err := in.openPath(path, stderr)
	if err != nil {
		return nil, err
	}
	return r.viewed(), nil
}

func (in *inputFlags) Each(paths []string, stderr io.Writer,
	use func(i int, in *viewInput) (format.Skipped, error)) (incomplete, err error) {
	m, err := in.readMany(paths, stderr, nil)
	if err != nil {
		return nil, err
	}
	err = m.each(func(r *openInput, src *source) (format.Skipped, error) { return use(src.number, r.viewed()) })
	return m.close(), err
}

func (in *inputFlags) Prepare(r *archive.Recording, stderr io.Writer) (*viewInput, error) {
	i := &openInput{recording: r}
	err := in.prepare(i, stderr)
	return i.viewed(), err
}

func (in *openInput) viewed() *viewInput {
	return &viewInput{recording: in.recording, Session: in.session, FD: in.fd, Warn: in.warn, Close: in.Close}
}
