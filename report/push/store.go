package push

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"gperf/format"
	"gperf/internal/archive"
	"gperf/internal/dso"
)

// encodeArchive packs the recording. Files with build IDs go next to the archives, once for all of them, under the
// names of debuginfod's protocol: the store is a debuginfod server for those who read the archives:
//
//	HOST/2026-11-22T10:00:05-0a1b2c.zip   the recording, and the files of its programs and kernel
//	buildid/ID/executable                 a program or library
//	buildid/ID/debuginfo                  its debug information, if that is another file
//
// A presigned URL permits to write one file: the archive then contains all files.
func encodeArchive(e *encoder) error {
	hits, skipped, err := archive.Collect(e.in.Session, false)
	if e.in.Warn != nil {
		e.in.Warn(skipped)
	}
	if err != nil {
		return err
	}
	one := presigned(e.queue.server.url)
	r := &request{Method: http.MethodPut, Header: map[string]string{"Content-Type": "application/zip"}}
	if !one {
		r.Path = e.archiveName()
	}
	f, err := e.create("recording", r)
	if err != nil {
		return err
	}
	p := &archive.Packer{Writer: archive.NewWriter(f), Locator: e.in.Session.Symbols.Locator()}
	if !one {
		p.Apart = e.addFile
	}
	in := e.in.Recording
	_, err = hits.Pack(p, in, func(err error) { e.queue.log("%s: not packed: %v", in.Path, err) })
	return errors.Join(err, f.Close())
}

// StoreOf returns the URL of the debuginfod server that is the store of an archive, whose path or URL is given. It
// returns "" if the archive is in no directory of a store.
func StoreOf(archive string) string {
	if u, err := url.Parse(archive); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.RawQuery != "" || strings.Count(u.Path, "/") < 2 {
			return ""
		}
		return u.JoinPath("../..").String()
	}
	path, err := filepath.Abs(archive)
	if err != nil {
		return ""
	}
	root := filepath.Dir(filepath.Dir(path))
	if st, err := os.Stat(filepath.Join(root, symbolsDir)); err != nil || !st.IsDir() {
		return ""
	}
	return (&url.URL{Scheme: "file", Path: root}).String()
}

// symbolsDir is the directory of a store for files by build ID.
const symbolsDir = "buildid"

// archiveName returns the name of the archive below the URL. The same recording gets the same name each time.
func (e *encoder) archiveName() string {
	host := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/\\?#% ", r) || r < ' ' {
			return '_'
		}
		return r
	}, e.in.Recording.File.String(format.FeatureHostname))
	if strings.Trim(host, ".") == "" {
		host = "unknown"
	}
	return path.Join(host, e.began().UTC().Format("2006-01-02T15:04:05")+"-"+e.id[:6]+".zip")
}

// addFile adds a file with a build ID, unless the server got it from another recording. It does not take a file that
// would fill the spool.
func (e *encoder) addFile(id, what string, im *dso.Image) (taken bool, err error) {
	name := "file-" + id + "-" + what
	if e.added[name] || e.queue.spool.Queued(name) || !e.queue.opts.Again && e.queue.spool.Known(name) {
		return true, nil
	}
	if limit := e.queue.opts.Bytes / 2; im.Size > uint64(limit) {
		e.queue.log("%s: its used parts are in the archive, not the file: it has more than half of the spool's %d MB",
			im.Path, e.queue.opts.Bytes/1_000_000)
		return false, nil
	}
	f, err := e.create(name, &request{Method: http.MethodPut, Path: path.Join(symbolsDir, id, what), Once: true,
		Header: map[string]string{"Content-Type": "application/octet-stream"}})
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(f, io.NewSectionReader(im, 0, int64(im.Size))); err != nil {
		f.Close()
		return false, err
	}
	e.added[name] = true
	return true, f.Close()
}
