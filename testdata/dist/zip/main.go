// Zip writes a ZIP archive that is equal for equal files: in the order of names, with the times of the files in UTC.
//
//	go run ./testdata/dist/zip FILE.zip DIRECTORY NAME    the files below DIRECTORY/NAME
package main

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: zip FILE.zip DIRECTORY NAME")
	}
	f, err := os.Create(os.Args[1])
	if err == nil {
		err = errors.Join(write(f, os.Args[2], os.Args[3]), f.Close())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func write(to io.Writer, dir, name string) error {
	z := zip.NewWriter(to)
	err := filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := zip.FileInfoHeader(info)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h.Name, h.Method, h.Modified = filepath.ToSlash(rel), zip.Deflate, info.ModTime().UTC()
		w, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
	return errors.Join(err, z.Close())
}
