package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// file is a file of a release.
type file struct {
	path    string // with slashes
	content []byte
	mode    fs.FileMode
}

// filesIn reads a file, or all files of a folder, below root, in the order of their names.
func filesIn(root, name string) (files []file, err error) {
	err = fs.WalkDir(os.DirFS(root), name, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, at))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if path.Ext(at) == ".sh" {
			mode = 0o755
		}
		files = append(files, file{at, content, mode})
		return nil
	})
	return files, err
}

// entry is a file or folder of an archive, with its mode and its owner.
type entry struct {
	head    tar.Header
	content []byte
}

// writeArchive writes a tar.gz of files in one folder.
func writeArchive(to, folder string, files []file, date time.Time) error {
	var entries []entry
	for _, f := range files {
		entries = append(entries, entry{tar.Header{Name: path.Join(folder, f.path), Mode: int64(f.mode)}, f.content})
	}
	packed, err := tarOf(entries, date)
	if err != nil {
		return err
	}
	return os.WriteFile(to, compressed(packed), 0o644)
}

// tarOf returns an archive of entries, all of one date.
func tarOf(entries []entry, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, e := range entries {
		e.head.Size, e.head.ModTime, e.head.Format = int64(len(e.content)), date, tar.FormatPAX
		if err := archive.WriteHeader(&e.head); err != nil {
			return nil, err
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

// compressed returns content in the format of gzip, without a name or a date.
func compressed(content []byte) []byte {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(content)
	if err := errors.Join(err, z.Close()); err != nil {
		panic("BUG: memory refuses to be written to: " + err.Error())
	}
	return packed.Bytes()
}
