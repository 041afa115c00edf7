// Package view shows recordings in the browser: it assembles a page that has the samples in one block and counts them
// itself, writes it as a file that needs no network, or serves it with source lines, annotated code and pprof's
// pages.
//
// Names of recordings, functions and files are data of the block. The page writes them as text, never as markup, and
// its Content-Security-Policy allows no scripts but its own.
package view

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"strings"

	"gperf/report/table"
)

// ErrNoSamples: the recordings have no samples.
var ErrNoSamples = errors.New("no samples")

//go:embed page
var files embed.FS

// scripts lists the page's scripts in order. Together they are one script: a function of one file is known in all.
var scripts = []string{"names.js", "data.js", "count.js", "state.js", "dom.js", "flame.js", "timeline.js", "tables.js",
	"function.js", "fields.js", "main.js"}

// About describes the shown recordings.
type About struct {
	Title   string
	Version int  // of the table of a live recording
	Live    bool // the recording is still made
}

// page is the assembled page.
type page struct {
	text   string
	policy string // Content-Security-Policy
}

// assemble makes the page. block is the block in base64 for a page without a server, or "".
func assemble(title, block string) page {
	style, script := text("style.css"), "\"use strict\";\n"
	for _, name := range scripts {
		script += text(name)
	}
	connect := "'self'"
	if block != "" {
		connect = "'none'"
	}
	p := page{policy: "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; connect-src " +
		connect + "; style-src 'sha256-" + digest(style) + "'; script-src 'sha256-" + digest(script) + "'"}
	p.text = strings.NewReplacer(
		"{{title}}", html.EscapeString(title),
		"{{policy}}", p.policy,
		"{{style}}", style,
		"{{script}}", script,
		"{{block}}", block,
	).Replace(text("page.html"))
	return p
}

// text returns an embedded file.
func text(name string) string {
	b, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the file is embedded: scripts and assemble name the files of page
	}
	return string(b)
}

// digest returns the hash of a script or style for a Content-Security-Policy.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Export writes a page with the table in it, which needs neither a server nor a network.
func Export(w io.Writer, t *table.Table, about About) error {
	if t.Len() == 0 {
		return ErrNoSamples
	}
	var block strings.Builder
	encoder := base64.NewEncoder(base64.StdEncoding, &block)
	packed := gzip.NewWriter(encoder)
	if err := writeBlock(packed, t, about); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, assemble(about.Title, block.String()).text)
	return err
}

// commandLine returns a command line in one line.
func commandLine(args []string) string { return strings.Join(args, " ") }
